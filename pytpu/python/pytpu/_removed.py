"""Functions that PyTorch removed. Their errors name the replacement."""

_SINCE = "This function was deprecated since version 1.9 and is now removed."


def _removed(name, text):
    def function(*args, **kwargs):
        raise RuntimeError(_SINCE + text)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = "Removed:" + text
    return function


def _instead(name, *lines):
    return _removed(name, f" `torch.{name}` is deprecated in favor of `torch.linalg.{name}`." + "\n".join(lines))


cholesky = _instead(
    "cholesky",
    "",
    "L = torch.cholesky(A) should be replaced with:",
    "L = torch.linalg.cholesky(A)",
    "U = torch.cholesky(A, upper=True) should be replaced with:",
    "U = torch.linalg.cholesky(A).mH",
)
eig = _removed(
    "eig",
    " `torch.linalg.eig` returns complex tensors of dtype `cfloat` or `cdouble` rather than real tensors mimicking "
    "complex tensors.\n\nL, _ = torch.eig(A) should be replaced with:\nL_complex = "
    "torch.linalg.eigvals(A)\n\nand\n\nL, V = torch.eig(A, eigenvectors=True) should be replaced with:\nL_complex, "
    "V_complex = torch.linalg.eig(A)",
)
lstsq = _instead(
    "lstsq",
    "",
    "`torch.linalg.lstsq` has reversed arguments and does not return the QR decomposition in the returned tuple "
    "(although it returns other information about the problem).",
    "",
    "To get the QR decomposition consider using `torch.linalg.qr`.",
    "",
    "The returned solution in `torch.lstsq` stored the residuals of the solution in the last m - n columns of the "
    "returned value whenever m > n. In torch.linalg.lstsq, the residuals are in the field 'residuals' of the returned "
    "named tuple.",
    "",
    "The unpacking of the solution, as in",
    "X, _ = torch.lstsq(B, A).solution[:A.size(1)]",
    "should be replaced with:",
    "X = torch.linalg.lstsq(A, B).solution",
)
matrix_rank = _removed(
    "matrix_rank",
    "\nPlease use the `torch.linalg.matrix_rank` function instead. "
    "The parameter 'symmetric' was renamed in `torch.linalg.matrix_rank()` to 'hermitian'.",
)
solve = _instead(
    "solve",
    " `torch.linalg.solve` has its arguments reversed and does not return the LU factorization.",
    "",
    "To get the LU factorization see `torch.lu`, which can be used with `torch.lu_solve` or `torch.lu_unpack`.",
    "X = torch.solve(B, A).solution should be replaced with:",
    "X = torch.linalg.solve(A, B)",
)
symeig = _removed(
    "symeig",
    " The default behavior has changed from using the upper triangular portion of the matrix by default to using the "
    "lower triangular portion.\n\nL, _ = torch.symeig(A, upper=upper) should be replaced with:\nL = "
    "torch.linalg.eigvalsh(A, UPLO='U' if upper else 'L')\n\nand\n\nL, V = torch.symeig(A, eigenvectors=True) should "
    "be replaced with:\n"
    "L, V = torch.linalg.eigh(A, UPLO='U' if upper else 'L')",
)


def qr(input, some=True, *, out=None):
    """Removed: see `torch.linalg.qr`."""
    mode = "reduced" if some else "complete"
    raise RuntimeError(
        f"{_SINCE} `torch.qr` is deprecated in favor of `torch.linalg.qr` and the boolean parameter `some` has been "
        "replaced with a string parameter `mode`.\n\nQ, R = torch.qr(A) should be replaced with:\nQ, R = "
        "torch.linalg.qr(A, mode='reduced')\n\nand\n\nQ, R = torch.qr(A, some=False) should be replaced with:\nQ, R "
        f"= torch.linalg.qr(A, mode='complete')\n\nSince `some` was set to {bool(some)}, use mode='{mode}'."
    )
