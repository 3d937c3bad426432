"""Where metrics go besides the run folder's own logs: `--log tensorboard,wandb,mlflow,csv`."""
