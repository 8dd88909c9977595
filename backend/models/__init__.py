"""Load a model, describe it, refuse it with a reason."""

from backend.models.bundled import ModelChoice, available
from backend.models.device import usual_device
from backend.models.loaded import LoadedModel, ModelCard
from backend.models.resident import load

__all__ = ["LoadedModel", "ModelCard", "ModelChoice", "available", "load", "usual_device"]
