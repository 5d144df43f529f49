"""The TorchScript front end: scripted and traced programs, evaluated in part until only graph values are left.

Everything that torch.jit alone needs is in this folder; it can go the day that torch drops TorchScript.
"""
