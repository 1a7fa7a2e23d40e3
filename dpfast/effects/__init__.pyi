from .hazards import cox as cox
from .instrumental import two_stage as two_stage
from .treatment import treatment_effect as treatment_effect
