package sim

import "strings"

// Sabotage is a way in which the store lies. The simulation must detect each of them: a test that
// cannot fail proves nothing.
type Sabotage string

// The sabotages. Each rolls a commit back and reports it as committed.
const (
	LoseClaims   Sabotage = "claims"   // the claim of a call, and with it the start
	LoseSettles  Sabotage = "settles"  // the settlement of a call, and with it the result
	LoseMessages Sabotage = "messages" // the receipt of a message
	LoseCancels  Sabotage = "cancels"  // the request to cancel a task
	LoseSpawns   Sabotage = "spawns"   // the record of a background run
	LoseDelivery Sabotage = "delivery" // the record of a delivery
)

// pretends reports whether a commit with this label is only pretended.
func (s Sabotage) pretends(label string) bool {
	word := map[Sabotage]string{
		LoseClaims: "claim ", LoseSettles: "settle ", LoseMessages: "message.received",
		LoseCancels: "task.cancel_requested", LoseSpawns: "task.created",
		LoseDelivery: "delivered [",
	}[s]
	return word != "" && strings.Contains(label, word) && !strings.HasPrefix(label, "refused")
}
