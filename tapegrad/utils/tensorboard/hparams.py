"""Rows of the table of hyperparameters, in the form that TensorBoard's plugin reads."""

import time
from typing import Any

from google.protobuf.struct_pb2 import ListValue, Value
from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
from tensorboard.plugins.hparams.api_pb2 import (
    DataType,
    Experiment,
    HParamInfo,
    MetricInfo,
    MetricName,
    Status,
)
from tensorboard.plugins.hparams.metadata import (
    EXPERIMENT_TAG,
    PLUGIN_DATA_VERSION,
    PLUGIN_NAME,
    SESSION_END_INFO_TAG,
    SESSION_START_INFO_TAG,
)
from tensorboard.plugins.hparams.plugin_data_pb2 import (
    HParamsPluginData,
    SessionEndInfo,
    SessionStartInfo,
)

from tapegrad import Tensor

__all__ = ["summaries_of"]


def summaries_of(
    values: dict[str, Any], metrics: dict[str, Any], domains: dict[str, list[Any]] | None
) -> tuple[Summary, Summary, Summary]:
    """Return what describes the experiment, opens the session and closes it."""
    domains = domains or {}
    strangers = sorted(domains.keys() - values.keys())
    if strangers:
        raise TypeError(
            "add_hparams: expected hparam_domain_discrete to name hyperparameters, "
            f"got {strangers}, of which hparam_dict knows nothing"
        )
    start = SessionStartInfo(start_time_secs=time.time())
    infos = []
    for name, given in values.items():
        value = given.item() if isinstance(given, Tensor) else given
        if value is None:
            continue
        kind, proto = _typed(name, value)
        start.hparams[name].CopyFrom(proto)
        info = HParamInfo(name=name, type=kind)
        if name in domains:
            choices = [_typed(name, choice)[1] for choice in domains[name]]
            info.domain_discrete.CopyFrom(ListValue(values=choices))
        infos.append(info)
    experiment = Experiment(
        hparam_infos=infos, metric_infos=[MetricInfo(name=MetricName(tag=tag)) for tag in metrics]
    )
    end = SessionEndInfo(status=Status.Value("STATUS_SUCCESS"), end_time_secs=time.time())
    return (
        _summary(EXPERIMENT_TAG, experiment=experiment),
        _summary(SESSION_START_INFO_TAG, session_start_info=start),
        _summary(SESSION_END_INFO_TAG, session_end_info=end),
    )


def _typed(name: str, value: Any) -> tuple[Any, Value]:
    """Return the plugin's type of a value, and the value."""
    if isinstance(value, bool):
        return DataType.Value("DATA_TYPE_BOOL"), Value(bool_value=value)
    if isinstance(value, int | float):
        return DataType.Value("DATA_TYPE_FLOAT64"), Value(number_value=value)
    if isinstance(value, str):
        return DataType.Value("DATA_TYPE_STRING"), Value(string_value=value)
    raise ValueError(
        f"add_hparams: expected {name!r} to be a bool, int, float, str or Tensor, "
        f"got {type(value).__name__}"
    )


def _summary(tag: str, **content: Any) -> Summary:
    data = HParamsPluginData(version=PLUGIN_DATA_VERSION, **content)
    plugin = SummaryMetadata.PluginData(plugin_name=PLUGIN_NAME, content=data.SerializeToString())
    metadata = SummaryMetadata(plugin_data=plugin)
    return Summary(value=[Summary.Value(tag=tag, metadata=metadata)])
