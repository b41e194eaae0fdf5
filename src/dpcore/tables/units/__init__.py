"""The units that own rows: which of their rows take part, and rows put together by unit."""
