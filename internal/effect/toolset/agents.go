package toolset

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/tool"
)

// The limits of the list of agents in the description of a tool. Every request to a model has it.
const (
	agentsBytes     = 4 << 10
	descriptionSize = 200 // of one agent, in characters
)

// StartsAgents reports whether one of the tools starts subagents.
func (s *Toolset) StartsAgents(tools []model.Tool) bool {
	return slices.ContainsFunc(tools, s.startsAgents)
}

func (s *Toolset) startsAgents(t model.Tool) bool {
	found, ok := s.Find(t.Name)
	return ok && found.Spec().Hints.CapabilityID == tool.AgentsCapability
}

// WithAgents returns definitions in which the tools that start subagents name the agents that they
// can start.
func (s *Toolset) WithAgents(tools []model.Tool, agents []core.NamedAgent) []model.Tool {
	note := agentsNote(agents)
	if note == "" {
		return tools
	}
	tools = slices.Clone(tools)
	for i, t := range tools {
		if s.startsAgents(t) {
			tools[i].Description += "\n\n" + note
		}
	}
	return tools
}

// agentsNote lists agents for a model, as many as fit.
func agentsNote(agents []core.NamedAgent) string {
	if len(agents) == 0 {
		return ""
	}
	var note strings.Builder
	note.WriteString("Agents that you can name:")
	for i, one := range agents {
		line := "\n- " + one.Name
		if about := shortLine(one.Description); about != "" {
			line += ": " + about
		}
		if note.Len()+len(line) > agentsBytes {
			fmt.Fprintf(&note, "\n(%d more are not listed here. A name that you know can be used as well.)", len(agents)-i)
			break
		}
		note.WriteString(line)
	}
	return note.String()
}

// shortLine returns a description as one line without control characters, cut to its limit.
func shortLine(text string) string {
	line := strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }), " ")
	if utf8.RuneCountInString(line) <= descriptionSize {
		return line
	}
	return string([]rune(line)[:descriptionSize-1]) + "…"
}
