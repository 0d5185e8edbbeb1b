//! Modules, initialisation, losses, optimisers and data loading.
