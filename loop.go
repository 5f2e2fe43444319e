package perdure

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Loop is the evidence that a turn repeats the same call without progress. A sign is a digest of a
// call and its result, without times and ids.
type Loop struct {
	LastDigest string `json:"last,omitempty"`  // sign of the last call
	Count      int    `json:"count,omitempty"` // its consecutive occurrences
	// signs of the latest file reads, oldest first; never changed in place
	ReadDigests    []string     `json:"reads,omitempty"`
	ReportedDigest string       `json:"told,omitempty"` // the sign that was already reported
	Repeated       RepeatedCall `json:"found,omitzero"` // in the last act step
}

// RepeatedCall is a call that repeatedly had the same result.
type RepeatedCall struct {
	Digest      string `json:"sign,omitempty"`
	Name        string `json:"name,omitempty"`
	Fingerprint string `json:"fingerprint,omitempty"`
	Count       int    `json:"count,omitempty"`
}

const (
	loopThreshold = 3  // identical calls that count as a loop
	maxReads      = 64 // length of Loop.Reads
	readTool      = "read_file"
)

// volatile matches the parts of a result that change without any progress: times, ids and
// measurements.
var volatile = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?` +
		`|\b[a-z]+_[0-9a-f]{32}\b|\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b` +
		`|"(\w+_)?(ms|us|ns|seconds|duration|elapsed|time|timestamp|at)":\s*-?[0-9.]+`)
})

// observe evaluates the calls of a completed step. Tools that only wait do not count: polling is
// not a loop.
func (l *Loop) observe(calls []TurnCall) {
	l.Repeated = RepeatedCall{}
	for _, c := range calls {
		if c.Result == nil || slices.Contains([]string{"wait_task", "get_task", "check_background_tool"}, c.Name) {
			continue
		}
		sign := c.resultDigest()
		if sign != l.LastDigest {
			l.LastDigest, l.Count = sign, 0
		}
		l.Count++
		times := l.Count
		if c.Name == readTool { // whatever happened in between, the file has not changed
			times = max(times, 1+count(l.ReadDigests, sign))
			l.ReadDigests = append(slices.Clone(l.ReadDigests[max(len(l.ReadDigests)-maxReads+1, 0):]), sign)
		}
		if times >= loopThreshold && times >= l.Repeated.Count {
			l.Repeated = RepeatedCall{Digest: sign, Name: c.Name, Fingerprint: c.Fingerprint, Count: times}
		}
	}
}

func count(signs []string, sign string) int {
	n := 0
	for _, s := range signs {
		if s == sign {
			n++
		}
	}
	return n
}

// resultDigest is a digest of the call and its result, without times and ids.
func (c TurnCall) resultDigest() string {
	h := sha256.New()
	r := c.Result
	fmt.Fprintf(h, "%q %q", cmp.Or(c.Fingerprint, c.Name+" "+string(c.Args)), r.ErrorKind)
	h.Write(volatile().ReplaceAll(r.Result, nil))
	h.Write(volatile().ReplaceAll([]byte(r.Error), nil))
	for _, image := range r.Images {
		fmt.Fprintf(h, "%q", string(image.ID)+image.Base64)
	}
	return hex.EncodeToString(h.Sum(nil)[:12])
}

// reportLoop reports a loop once, and seals the turn if its agent wants that.
func (s *Session) reportLoop(m Moment) []Event {
	found := s.Turn.Loop.Repeated
	if found.Count < loopThreshold {
		return nil
	}
	seals := s.Agent.SealAfter > 0 && found.Count >= s.Agent.SealAfter
	var events []Event
	if s.Turn.Loop.ReportedDigest != found.Digest {
		told := LoopDetected{Name: found.Name, Fingerprint: found.Fingerprint, Count: found.Count}
		if !seals {
			id := DeriveID[MessageID](m.Secret, m.Now, string(s.Turn.ID), "loop", found.Digest, fmt.Sprint(s.Seq))
			text := fmt.Sprintf("You called %s %d times with the same arguments and got the same result each time. Calling it again will not "+
				"change that: use what you have, try something else, or say what prevents you from continuing.",
				strings.ToValidUTF8(found.Name, "?"), found.Count)
			told.Message = Message{ID: id, Role: RoleNotification, Parts: []Part{{Type: PartText, Text: text}}, At: m.Now}
		}
		events = append(events, s.event(m, told))
	}
	if seals {
		why := fmt.Sprintf("%s was called %d times with the same result", found.Name, found.Count)
		events = append(events, s.event(m, InterruptRequested{By: "runtime", Reason: why, Seal: "no_progress"}))
	}
	return events
}
