"""The papers' experiments: ``python -m bench figures --paper N`` draws and judges each of them."""
