"""A stand-in for MindSpore: its msrun starts the same processes the same way, in no time."""

import os


def get_context(name: str) -> str:
    return {"device_target": os.environ.get("STAND_IN_DEVICE", "CPU")}[name]
