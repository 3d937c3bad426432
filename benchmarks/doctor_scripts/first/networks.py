"""Small networks for the scripts of this folder."""

from itertools import pairwise

from torch import nn


def mlp(*widths, activation=nn.ReLU):
    layers = []
    for inner, outer in pairwise(widths):
        layers += [nn.Linear(inner, outer), activation()]
    return nn.Sequential(*layers[:-1])
