// Ctrl-C and termination as a CancelToken.
#pragma once

#include "fathom/cancel.h"

namespace fathom::cli {

// From here on a signal cancels interrupt_token(); the third one that nobody has answered ends the
// program at once.
void watch_interrupts();
CancelToken& interrupt_token();
// Signals since the last call of answer_interrupt().
int interrupts();
void answer_interrupt();
// True after a request to terminate (not Ctrl-C), which chat does not shrug off.
bool asked_to_terminate();
// What the program exits with when it was stopped: 130 (Ctrl-C) or 143 (termination).
int interrupt_exit_code();

}  // namespace fathom::cli
