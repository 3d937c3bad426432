"""Any Gymnasium environment behind the contract of `briskrl.envs.base`."""
