"""What a report says where the other side can't compare and change in one call."""

UNSEEN = "it was read right before; a change between that and the call could not be seen"
