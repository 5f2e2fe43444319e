package sim

import "strings"

// Sabotage is a way in which the store lies. The simulation must detect each of them: a test that
// cannot fail proves nothing.
type Sabotage string

// The sabotages. Each of these rolls a commit back and reports it as committed.
const (
	LoseClaims   Sabotage = "claims"   // the claim of a call, and with it the start
	LoseSettles  Sabotage = "settles"  // the settlement of a call, and with it the result
	LoseMessages Sabotage = "messages" // the receipt of a message
	LoseCancels  Sabotage = "cancels"  // the request to cancel a task
	LoseSpawns   Sabotage = "spawns"   // the record of a background run
	LoseDelivery Sabotage = "delivery" // the record of a delivery
)

// The sabotages of several hosts. In all but the last one the store accepts what a fence refuses.
const (
	StaleGrants    Sabotage = "stale grants"    // a grant after which a later one was used
	UnfencedEpochs Sabotage = "unfenced epochs" // writes of a driver that has lost its session
	UnfencedTokens Sabotage = "unfenced tokens" // writes of an execution that has lost its call
	ForgetDue      Sabotage = "forget due"      // the scheduler never asks for what it has forgotten
)

// pretends reports whether a commit with this label is only pretended.
func (s Sabotage) pretends(label string) bool {
	word := map[Sabotage]string{
		LoseClaims: "claim ", LoseSettles: "settle ", LoseMessages: "message.received",
		LoseCancels: "task.cancel_requested", LoseSpawns: "task.created",
		LoseDelivery: "delivered [",
	}[s]
	return word != "" && strings.Contains(label, word) && !strings.Contains(label, "refused: ")
}
