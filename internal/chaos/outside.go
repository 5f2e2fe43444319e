package chaos

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure"
)

// EffectOf names what a call does outside, once for each call and the same for every execution of it.
func EffectOf(tool string, key perdure.CallKey) string { return tool + " " + key.String() }

// Complete fills in, from the calls themselves, what lines of the ledger leave out: a user's own service knows the call
// and its key, but neither the class nor a name for the effect.
func Complete(ledger []Line, calls []perdure.Call) []Line {
	byID := map[string]perdure.Call{}
	for _, call := range calls {
		byID[string(call.Key.Call)] = call
		byID[call.Key.String()] = call // what has the same id in several sessions is named with its session
	}
	whole := slices.Clone(ledger)
	for i, line := range whole {
		call, known := byID[line.Call]
		if line.Class == "" && known {
			whole[i].Class = string(call.Class)
		}
		if line.Effect == "" {
			whole[i].Effect = line.Call
			if known {
				whole[i].Effect = EffectOf(call.Tool, call.Key)
			}
		}
	}
	return whole
}

// ReadEffects reads lines of "call_id key", as a service lists them afterwards. The key may be left out.
func ReadEffects(text string) ([]Line, error) {
	var lines []Line
	for n, line := range strings.Split(text, "\n") {
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
			continue
		case len(words) > 2:
			return nil, fmt.Errorf("%w effects, line %d: %q: want CALL_ID KEY", perdure.Invalid, n+1, line)
		}
		one := Line{Call: words[0]}
		if len(words) == 2 {
			one.Key = words[1]
		}
		lines = append(lines, one)
	}
	return lines, nil
}

// named finds the effect that a command was told to write.
var named = regexp.MustCompile(`--effect '([^']+)'`)

// Missing finds the calls that ended well, whose tools write into the ledger, and that are not there. A tool is one that
// writes if Perdure's own fixtures say so; of others nobody knows.
func Missing(ledger []Line, calls []perdure.Call, writes func(tool string) bool) []Violation {
	there := map[string]bool{}
	for _, line := range ledger {
		there[line.Effect] = true
	}
	var missing []Violation
	for _, call := range calls {
		effect := ""
		if found := named.FindSubmatch(call.Args); found != nil && succeeded(call) {
			effect = string(found[1])
		} else if writes(call.Tool) {
			effect = EffectOf(call.Tool, call.Key)
		}
		if effect == "" || call.State != perdure.CallSettled || call.Result == nil || call.Result.Error != "" || there[effect] {
			continue
		}
		missing = append(missing, Violation{"missing", call.Key.Session, fmt.Sprintf("call %s of %s ended well, and its effect %q did not happen", call.Key.Call, call.Tool, effect)})
	}
	return missing
}

// Recoveries is how long each start took until the first turn or task moved that an earlier start had left unfinished:
// from the start of the process to the moment of the event. A start that had nothing to take up, or was ended before
// anything moved, counts for nothing.
func Recoveries(journals []Journal, starts []Start) []time.Duration {
	first := make([]time.Time, len(starts))
	for _, journal := range journals {
		moves(journal, starts, first)
	}
	var took []time.Duration
	for i, at := range first {
		if !at.IsZero() {
			took = append(took, at.Sub(starts[i].At))
		}
	}
	return took
}

// moves notes the first move of an unfinished session in each life.
func moves(j Journal, starts []Start, first []time.Time) {
	s := perdure.NewSession(j.Session)
	life, unfinished, begun := 0, false, false
	for _, event := range j.Events {
		for life+1 < len(starts) && !event.At.Before(starts[life+1].At) {
			life++
			unfinished = begun && !s.AtRest()
		}
		if life > 0 && unfinished && !event.At.Before(starts[life].At) && own(event.Fact) {
			if first[life].IsZero() || event.At.Before(first[life]) {
				first[life] = event.At
			}
		}
		if s.Apply(event) != nil {
			return // GaplessJournal tells it
		}
		begun = true
	}
}

// own reports whether an event is the runtime's own step, and not the word of a client.
func own(fact perdure.Fact) bool {
	switch fact.(type) {
	case perdure.SessionCreated, perdure.MessageReceived, perdure.InterruptRequested, perdure.TaskCancelRequested,
		perdure.TaskMessageSent, perdure.ApprovalResolved, perdure.TaskResolved, perdure.ToolResolved:
		return false
	}
	return true
}

// succeeded reports whether a command ended with exit code 0.
func succeeded(c perdure.Call) bool {
	return c.Result != nil && strings.Contains(string(c.Result.Result), `"exit_code":0`)
}
