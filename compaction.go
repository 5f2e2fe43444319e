package perdure

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Compaction says what of the transcript the model is not shown any more (TN23). The transcript itself stays whole. The
// zero value shows everything.
type Compaction struct {
	Masked int     `json:"masked,omitempty"` // large tool results before this message are masked
	Drop   int     `json:"drop,omitempty"`   // the messages before this one are left out, all but the first
	Notice Message `json:"notice,omitzero"`  // stands in their place: what was left out, and the tasks that are open (DL13)
}

// ContextCompacted narrows what the model is shown, so that every replay shows it the same.
type ContextCompacted struct {
	Strategy   string     `json:"strategy"` // mask, drop
	Before     int        `json:"before"`   // tokens, estimated
	After      int        `json:"after"`
	Compaction Compaction `json:"compaction"`
}

const (
	bytesPerToken = 4   // of the estimate
	maskedOver    = 512 // bytes; a smaller result is not worth masking
	keptSteps     = 2   // the last steps, which are never masked
)

// Context is what the model is shown: the transcript, without what was compacted away. The caller must not change it.
func (s *Session) Context() []Message { return s.Compacted.view(s.Transcript) }

func (c Compaction) view(transcript []Message) []Message {
	if c.Masked == 0 && c.Drop == 0 {
		return transcript
	}
	var shown []Message
	for i, m := range transcript {
		switch {
		case i > 0 && i < c.Drop:
			continue
		case i < c.Masked:
			m = masked(m)
		}
		if i == max(c.Drop, 1) && len(c.Notice.Parts) > 0 {
			shown = append(shown, c.Notice)
		}
		shown = append(shown, m)
	}
	return shown
}

// masked is a message without the bodies of large tool results.
func masked(m Message) Message {
	if m.Role != RoleToolResult {
		return m
	}
	m.Parts = slices.Clone(m.Parts)
	for i, p := range m.Parts {
		if p.Result == nil || len(p.Result.Result) <= maskedOver && len(p.Result.Images) == 0 {
			continue
		}
		short := *p.Result
		short.Result = json.RawMessage(fmt.Sprintf(`{"masked":true,"bytes":%d}`, len(p.Result.Result)))
		short.Images, short.RawOutput = nil, nil
		m.Parts[i].Result = &short
	}
	return m
}

// tokens estimates what messages cost.
func tokens(messages []Message) int {
	n := 0
	for _, m := range messages {
		for _, p := range m.Parts {
			n += len(p.Text) + 16
			if p.Call != nil {
				n += len(p.Call.Arguments) + len(p.Call.Name)
			}
			if p.Result != nil {
				n += len(p.Result.Result)
				for _, image := range p.Result.Images {
					n += len(image.Base64)
				}
			}
			if p.Image != nil {
				n += len(p.Image.Base64)
			}
		}
	}
	return n / bytesPerToken
}

// compact narrows the context to at most so many tokens: large results of old steps are masked, and if that is not enough
// the oldest messages go, never a call without its result (TN23). Not ok: nothing more can be left out.
func (s *Session) compact(m Moment, most int) (fact ContextCompacted, ok bool) {
	before := tokens(s.Context())
	starts := s.boundaries()
	if len(starts) == 0 {
		return fact, false
	}
	last := starts[max(len(starts)-keptSteps, 0)]
	tried := s.Compacted
	tried.Masked = max(last, tried.Masked)
	tried.Notice = s.leftOut(m, tried.Drop) // what starts a run answers at length, and may be masked
	fact = ContextCompacted{Strategy: "mask", Before: before, Compaction: tried}
	if fact.After = tokens(tried.view(s.Transcript)); fact.After <= most {
		return fact, fact.After < before
	}
	fact.Strategy = "drop"
	starts = slices.DeleteFunc(starts, func(start int) bool { return start <= tried.Drop })
	if len(starts) == 0 {
		return fact, fact.After < before
	}
	drop := func(i int) int { // what is left after a start; the later, the less
		tried.Drop = starts[i]
		tried.Notice = s.leftOut(m, starts[i])
		fact.Compaction, fact.After = tried, tokens(tried.view(s.Transcript))
		return fact.After
	}
	first, _ := slices.BinarySearchFunc(indexes(len(starts)), most, func(i, most int) int {
		if drop(i) > most {
			return -1
		}
		return 1
	})
	drop(min(first, len(starts)-1))
	return fact, fact.After < before
}

// indexes are 0 to n-1.
func indexes(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

// boundaries are the messages before which the transcript may be cut: no result stands there whose call would be gone, and
// the last step stays.
func (s *Session) boundaries() []int {
	var starts []int
	for i, m := range s.Transcript {
		if i > 1 && m.Role != RoleToolResult {
			starts = append(starts, i)
		}
	}
	return starts
}

// leftOut is what stands in the place of messages: how many they were, and the tasks that are open (DL13). Without either
// it has no parts.
func (s *Session) leftOut(m Moment, before int) Message {
	var lines []string
	if before > 1 {
		lines = append(lines, fmt.Sprintf("%d earlier messages are left out here to save room.", before-1))
	}
	var tasks []Task
	for _, t := range s.Tasks {
		tasks = append(tasks, t)
	}
	slices.SortFunc(tasks, Task.compareAge)
	if open := OpenTasksText(tasks); open != "" {
		lines = append(lines, open)
	}
	if len(lines) == 0 {
		return Message{}
	}
	id := DeriveID[MessageID](m.Secret, m.Now, string(s.ID), "compacted", fmt.Sprint(before), fmt.Sprint(s.Seq))
	return Message{ID: id, Role: RoleNotification, Parts: []Part{{Type: PartText, Text: strings.Join(lines, "\n")}}, At: m.Now}
}

// maxOpenLines is how many lines OpenTasksText writes at most.
const maxOpenLines = 20

// OpenTasksText writes down the background work of a session that is not over for the model: what lives, then what has
// ended and was not told yet. It is put back into a conversation that was compacted, so that the ids are not lost
// (DL13). It tells no times, so that the same tasks are the same text and a prompt's cache stays good.
//
// tasks stand in the order of their creation, and may hold others. Without open tasks it is empty. What exceeds 20
// lines is counted; list_tasks shows it.
func OpenTasksText(tasks []Task) string {
	var live, over []string
	for _, t := range tasks {
		switch {
		case t.Lane == Foreground: // its call stands in the conversation and waits for its result
		case t.State.Live():
			live = append(live, t.openLine())
		case t.State.Terminal() && t.undelivered():
			over = append(over, t.openLine())
		}
	}
	lines := append(live, over...)
	if len(lines) == 0 {
		return ""
	}
	if most := maxOpenLines - 1; len(lines) > most {
		left := len(lines) - (most - 1)
		lines = append(lines[:most-1:most-1], fmt.Sprintf("- and %d more: call list_tasks", left))
	}
	return "Open background tasks:\n" + strings.Join(lines, "\n")
}

// openLine is one task of the block.
func (t Task) openLine() string {
	line := "- " + string(t.ID)
	if t.Run != "" {
		line += " (" + string(t.Run) + ")"
	}
	line += fmt.Sprintf(" %s: %s", t.Tool, t.State)
	switch {
	case t.InputRequest != nil:
		line += " for " + string(t.InputRequest.ID)
	case t.State.Terminal():
		line += ", not read yet"
	}
	return line
}
