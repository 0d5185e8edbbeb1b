# From the documentation of transformers, "BERT", "BertConfig".
from transformers import BertConfig, BertModel

# Initializing a BERT google-bert/bert-base-uncased style configuration
configuration = BertConfig()

# Initializing a model (with random weights) from the google-bert/bert-base-uncased style configuration
model = BertModel(configuration)

# Accessing the model configuration
configuration = model.config
# The last line is not from the documentation.
print(model.config.hidden_size, model.num_parameters(), model.embeddings.word_embeddings)
