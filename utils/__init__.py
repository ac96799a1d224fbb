"""The instruments of "One add, priced": measure, model and show what one PyTorch op costs.

Importing this package is cheap: no torch, no matplotlib, no widgets. Each room imports what it needs.
"""

__version__ = "0.1.0"
