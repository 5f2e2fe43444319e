package api

import (
	"context"
	"strconv"
	"strings"
	"time"
)

// Waits is what an operation takes that can wait for an outcome (H7).
type Waits struct {
	Wait   string `query:"wait" example:"1s" doc:"How long to wait for the outcome, such as 30s; at most 60 s. Then the answer is what stands."`
	Prefer string `header:"Prefer" doc:"wait=30 is ?wait=30s."`
}

// duration is how long the caller is ready to wait: not at all, to the most that is allowed.
func (w Waits) duration(most time.Duration) (time.Duration, error) {
	text, field := w.Wait, "query.wait"
	if text == "" {
		field = "header.Prefer"
		text = preferred(w.Prefer, "wait")
	}
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if seconds, notNumber := strconv.ParseUint(text, 10, 31); notNumber == nil {
		d, err = time.Duration(seconds)*time.Second, nil
	}
	if err != nil || d < 0 {
		return 0, invalid(field, "a time such as 30s, or a number of seconds")
	}
	return min(d, most), nil
}

// preferred is the value of a preference in a Prefer header (RFC 7240), without its quotes and its parameters; of several, the first
// holds. Empty: there is none.
func preferred(header, name string) string {
	for _, one := range parts(header, ',') {
		pair := parts(one, ';')[0]
		word, value, _ := strings.Cut(pair, "=")
		if !strings.EqualFold(strings.TrimSpace(word), name) {
			continue
		}
		value = strings.TrimSpace(value)
		if len(value) > 1 && value[0] == '"' && value[len(value)-1] == '"' {
			value = value[1 : len(value)-1]
		}
		return value
	}
	return ""
}

// parts cuts a header at a sign, but not within quotes.
func parts(header string, sign byte) (all []string) {
	quoted, from := false, 0
	for i := 0; i < len(header); i++ {
		switch c := header[i]; {
		case c == '\\' && quoted:
			i++
		case c == '"':
			quoted = !quoted
		case c == sign && !quoted:
			all = append(all, header[from:i])
			from = i + 1
		}
	}
	return append(all, header[from:])
}

// patience is a context that ends with the caller, after d, or when the server drains.
func (a *API) patience(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	waiting, cancel := context.WithTimeout(ctx, d)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		select {
		case <-a.draining:
			cancel()
		case <-waiting.Done():
		}
	}()
	return waiting, func() { cancel(); <-gone }
}
