def default_table():
    return {}
