package perdure

import (
	"fmt"
	"slices"
)

// RepairTranscript looks up the results of calls that have none. The answer is transcript.repaired
// for each breach of the rule that every call has exactly one result, after it and before the next
// message of the model.
type RepairTranscript struct {
	Turn     TurnID
	Breaches []Breach
}

func (RepairTranscript) command() {}

// Breach is a call without a result in its place, or a result that is superfluous.
type Breach struct {
	Call    ToolCall    // with Dropped only the id is known
	Dropped bool        // the result is superfluous: a second one, or one without a call
	Result  *ToolResult // the call's result, found in another place; nil: the effect ledger has to be asked
	message int         // index in the transcript of the call, or of the superfluous result
	part    int
}

// Breaches finds the breaches in the part of the transcript that was not checked before.
func (s *Session) Breaches() []Breach {
	var found []Breach
	open := map[CallID]int{} // calls that still need a result, by their index in asked
	var asked []Breach
	settle := func() {
		for _, a := range asked {
			if _, waits := open[a.Call.ID]; waits {
				a.Result = s.strayResult(a.Call.ID, a.message)
				found = append(found, a)
			}
		}
		open, asked = map[CallID]int{}, nil
	}
	for i := min(s.CheckedLen, len(s.Transcript)); i < len(s.Transcript); i++ {
		m := s.Transcript[i]
		if m.Role == RoleAgent {
			settle()
		}
		for j, p := range m.Parts {
			switch {
			case p.Type == PartToolCall && p.Call != nil:
				open[p.Call.ID] = len(asked)
				asked = append(asked, Breach{Call: *p.Call, message: i, part: j})
			case p.Type == PartToolResult && p.Result != nil:
				if _, waits := open[p.Result.CallID]; !waits {
					found = append(found, Breach{Call: ToolCall{ID: p.Result.CallID}, Dropped: true, message: i, part: j})
				}
				delete(open, p.Result.CallID)
			}
		}
	}
	settle()
	return found
}

// HasBreach reports whether the breach that f repairs still exists.
func (s *Session) HasBreach(f TranscriptRepaired) bool {
	return slices.ContainsFunc(s.Breaches(), f.fixes)
}

func (f TranscriptRepaired) fixes(b Breach) bool {
	return b.Call.ID == f.CallID && b.Dropped == (f.Result == nil)
}

// strayResult returns a result of the call that comes too late in the transcript, or nil.
func (s *Session) strayResult(id CallID, after int) *ToolResult {
	for _, m := range s.Transcript[after:] {
		for _, p := range m.Parts {
			if p.Result != nil && p.Result.CallID == id {
				return p.Result
			}
		}
	}
	return nil
}

// repair fixes the first breach that f is about. A fact without a result, as earlier versions wrote
// it, changes nothing.
func (s *Session) repair(f TranscriptRepaired) error {
	if f.Result == nil && f.Action != RepairDropped {
		return nil
	}
	broken := s.Breaches()
	i := slices.IndexFunc(broken, f.fixes)
	if i < 0 {
		return nil // already repaired
	}
	b := broken[i]
	s.Transcript = slices.Clone(s.Transcript)
	if b.Dropped {
		m := s.Transcript[b.message]
		m.Parts = slices.Delete(slices.Clone(m.Parts), b.part, b.part+1)
		s.Transcript[b.message] = m
		if len(m.Parts) == 0 {
			s.Transcript = slices.Delete(s.Transcript, b.message, b.message+1)
			s.Compacted.shift(b.message, -1)
		}
		return nil
	}
	if f.Result.CallID != f.CallID {
		return fmt.Errorf("%w: the result of call %s is of call %s", Conflict, f.CallID, f.Result.CallID)
	}
	calls := s.Transcript[b.message].Calls()
	before := func(id CallID) bool { // results stand in the order of the calls
		at := func(id CallID) int { return slices.IndexFunc(calls, func(c ToolCall) bool { return c.ID == id }) }
		return at(id) >= 0 && at(id) < at(f.CallID)
	}
	at := b.message + 1
	for ; at < len(s.Transcript); at++ {
		m := s.Transcript[at]
		if m.Role != RoleToolResult || len(m.Parts) == 0 || m.Parts[0].Result == nil || !before(m.Parts[0].Result.CallID) {
			break
		}
	}
	s.Transcript = slices.Insert(s.Transcript, at, Message{Role: RoleToolResult, Parts: []Part{{Type: PartToolResult, Result: f.Result, Untrusted: f.Result.Untrusted}}})
	s.Compacted.shift(at, 1)
	return nil
}

// shift adjusts the indexes after by messages were inserted or removed at an index.
func (c *Compaction) shift(at, by int) {
	if at < c.Masked {
		c.Masked += by
	}
	if at < c.Drop {
		c.Drop += by
	}
}

// What a repair of the transcript does.
const (
	RepairReplay      = "replay"
	RepairPlaceholder = "placeholder"
	RepairUnknown     = "unknown"
	RepairInterrupted = "interrupted"
	RepairNotExecuted = "not_executed"
	RepairDropped     = "dropped" // a superfluous result was removed
)

// TranscriptRepaired gives a call the result that it lacked, or removes a superfluous result.
type TranscriptRepaired struct {
	CallID CallID      `json:"call_id"`
	Tool   string      `json:"tool"`
	Action string      `json:"action"`
	TurnID TurnID      `json:"turn_id"`          // of the turn that made the call; empty: not known
	Result *ToolResult `json:"result,omitempty"` // nil: a result was removed
}
