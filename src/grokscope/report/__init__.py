"""What a person looks at: figures, and a page that explains them."""

from grokscope.report.arms import Arm, group_runs
from grokscope.report.certificates import certificate_chart, decoupling_chart
from grokscope.report.charts import (
    CHARTS,
    accuracy_chart,
    attention_chart,
    comparison_chart,
    loss_chart,
    norm_chart,
    starvation_chart,
    structure_chart,
)
from grokscope.report.files import save_chart
from grokscope.report.page import write_page

__all__ = [
    "CHARTS",
    "Arm",
    "accuracy_chart",
    "attention_chart",
    "certificate_chart",
    "comparison_chart",
    "decoupling_chart",
    "group_runs",
    "loss_chart",
    "norm_chart",
    "save_chart",
    "starvation_chart",
    "structure_chart",
    "write_page",
]
