"""CartPole as Gymnasium's CartPole-v1 plays it, all carts of a batch stepped by one call."""
