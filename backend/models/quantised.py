"""Models whose weights were stored with 4 or 8 bits: readable where the package that made them is installed."""

from __future__ import annotations

import importlib.util

from backend.errors import Refused

# quant_method in a configuration -> the module that transformers needs for it; methods that are not here need none
PACKAGES = {
    "bitsandbytes": "bitsandbytes",
    "bitsandbytes_4bit": "bitsandbytes",
    "bitsandbytes_8bit": "bitsandbytes",
    "gptq": "gptqmodel",
    "awq": "gptqmodel",
    "torchao": "torchao",
    "quanto": "optimum.quanto",
    "hqq": "hqq",
    "eetq": "eetq",
    "aqlm": "aqlm",
    "compressed-tensors": "compressed_tensors",
    "quark": "quark",
    "auto-round": "auto_round",
}


def check_quantised(config, name: str) -> None:
    """Refused where the weights are quantised and the package that reads them is not here."""
    found = getattr(config, "quantization_config", None)
    if found is None:
        return
    settings = found if isinstance(found, dict) else found.to_dict()
    method = str(getattr(settings.get("quant_method"), "value", settings.get("quant_method")))
    package = PACKAGES.get(method)
    if package is not None and not installed(package):
        raise Refused(
            f"The weights of {name} are quantised with {method}, and the package that reads them ({package}) is not "
            "installed here. Install it, or load a copy of the model that is not quantised."
        )


def installed(package: str) -> bool:
    """Whether a module can be imported, without importing it."""
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # the package around it is not there
        return False
