// Package dev is what perdure dev needs besides a server: an agent without a model that uses every
// lane, and a watch for files.
//
// It imports nothing of Perdure. The one thing to know: the agent uses the tools that every server
// has, so that its sessions continue under perdure serve.
package dev

import (
	_ "embed"
	"strings"
)

// TourScript is the script of the agent of the tour.
//
//go:embed tour.yaml
var TourScript []byte

//go:embed agent.yaml
var agent string

// Agent is the name of the agent of the tour.
const Agent = "tour"

// TourAgent returns the file of the agent, with the path of its script and its workspace.
func TourAgent(script, workspace string) []byte {
	return []byte(strings.NewReplacer("SCRIPT", script, "WORKSPACE", workspace).Replace(agent))
}

// Piece is a session of the tour: a title, and the message that begins it.
type Piece struct{ Title, Message string }

// Tour returns the sessions of the tour, one for each lane. The last one needs a person, and is
// listed first.
func Tour() []Piece {
	return []Piece{
		{"Foreground: the turn waits", "add"},
		{"Detached: tests outlast their turn", "outlast"},
		{"Background: a build and a check", "background"},
		{"Scheduled: every ten minutes", "schedule"},
		{"Subagents: three helpers", "delegate"},
		{"Needs you: delete the report?", "delete"},
	}
}
