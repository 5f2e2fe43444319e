package chaos

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure"
)

// EffectOf returns the name of the external effect of a call. It is unique per call, and the same
// for every execution of it.
func EffectOf(tool string, key perdure.CallKey) string { return tool + " " + key.String() }

// Complete fills in missing fields of ledger lines from the calls: an external service knows the
// call and its key, but not the class or the name of the effect.
func Complete(ledger []Line, calls []perdure.Call) []Line {
	byID := map[string]perdure.Call{}
	for _, call := range calls {
		byID[string(call.Key.Call)] = call
		byID[call.Key.String()] = call // call ids that several sessions share are qualified with the session
	}
	completed := slices.Clone(ledger)
	for i, line := range completed {
		call, known := byID[line.Call]
		if line.Class == "" && known {
			completed[i].Class = string(call.Class)
		}
		if line.Effect == "" {
			completed[i].Effect = line.Call
			if known {
				completed[i].Effect = EffectOf(call.Tool, call.Key)
			}
		}
	}
	return completed
}

// ReadEffects parses lines of "call_id key", as a service lists them. The key is optional.
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

// named matches the name of the effect in a command.
var named = regexp.MustCompile(`--effect '([^']+)'`)

// Missing returns the successful calls whose effect is not in the ledger. writes reports whether a
// tool writes to the ledger; for other tools nothing is known.
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
		if effect == "" || call.State != perdure.CallSettled || call.Result == nil || call.Result.Error != "" ||
			there[effect] {
			continue
		}
		missing = append(missing,
			Violation{"missing", call.Key.Session,
				fmt.Sprintf("call %s of %s succeeded, but its effect %q did not happen", call.Key.Call, call.Tool, effect)})
	}
	return missing
}

// Recoveries returns, for each start, the time from the start of the process to the first event of
// a turn or task that an earlier process had left unfinished. Starts without unfinished work, and
// those that ended before any such event, are left out.
func Recoveries(journals []Journal, starts []Start) []time.Duration {
	first := make([]time.Time, len(starts))
	for _, journal := range journals {
		isProgress(journal, starts, first)
	}
	var took []time.Duration
	for i, at := range first {
		if !at.IsZero() {
			took = append(took, at.Sub(starts[i].At))
		}
	}
	return took
}

// isProgress records the first event of an unfinished session in each process.
func isProgress(j Journal, starts []Start, first []time.Time) {
	s := perdure.NewSession(j.Session)
	process, unfinished, begun := 0, false, false
	for _, event := range j.Events {
		for process+1 < len(starts) && !event.At.Before(starts[process+1].At) {
			process++
			unfinished = begun && !s.AtRest()
		}
		if process > 0 && unfinished && !event.At.Before(starts[process].At) && isAutomatic(event.Fact) {
			if first[process].IsZero() || event.At.Before(first[process]) {
				first[process] = event.At
			}
		}
		if s.Apply(event) != nil {
			return // GaplessJournal reports it
		}
		begun = true
	}
}

// isAutomatic reports whether an event is a step of the runtime rather than an action of a client.
func isAutomatic(fact perdure.Fact) bool {
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
