"""Trained policies outside training: acting on single observations, ONNX, TorchScript, bundles."""
