package core

import (
	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// Outcome is the result of one command: its events, and the settlement that goes with them.
type Outcome struct {
	Events         []perdure.Event
	Settle         *Settlement
	Checkpoint     *store.Partial    // stored text of a message that stays open; nil: none
	DropCheckpoint perdure.MessageID // message whose checkpoint is removed; empty: none
	// replaces this outcome if the turn is ending, because the message gets no further attempt
	IfEnding    *Outcome
	Reservation string // name of a reservation that belongs to no step, as for a summary; empty: none
}

// Settlement settles a claimed call in the commit of its event.
type Settlement struct {
	Key    perdure.CallKey
	Token  perdure.Token
	State  perdure.CallState
	Result perdure.ToolResult
}
