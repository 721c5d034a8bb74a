"""One loop that asks a model many questions about many images, and one store that resumes it.

:class:`AnswerLoop` abducts, acts, predicts and reverses, block by block, for any model that keeps
to the contract. :class:`Store` keeps tensors in a folder, and :class:`Memory` keeps values for as
long as they fit: both by a key of everything that an entry depends on.
"""

from fcfg.answers.loop import Answer, AnswerLoop, Block, Question, in_blocks
from fcfg.answers.store import Memory, Store, size_of

__all__ = ["Answer", "AnswerLoop", "Block", "Memory", "Question", "Store", "in_blocks", "size_of"]
