"""Load a model, describe it, refuse it with a reason."""

from backend.models.bundled import ModelChoice, available
from backend.models.device import usual_device
from backend.models.load_time import LoadTime, load_time
from backend.models.loaded import LoadedModel, ModelCard
from backend.models.resident import in_memory, load, seconds_to_load

__all__ = [
    "LoadTime",
    "LoadedModel",
    "ModelCard",
    "ModelChoice",
    "available",
    "in_memory",
    "load",
    "load_time",
    "seconds_to_load",
    "usual_device",
]
