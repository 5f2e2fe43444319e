package api

import (
	"context"
	"strconv"
	"strings"
	"time"
)

// Waits holds the parameters of an operation that can wait for an outcome (H7).
type Waits struct {
	Wait   string `query:"wait" example:"1s" doc:"How long to wait for the outcome, such as 30s; at most 60 s. After that the response is the current state."`
	Prefer string `header:"Prefer" doc:"wait=30 is the same as ?wait=30s."`
}

// duration returns how long the caller wants to wait, up to limit; 0: not at all.
func (w Waits) duration(limit time.Duration) (time.Duration, error) {
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
		return 0, invalid(field, "must be a duration such as 30s, or a number of seconds")
	}
	return min(d, limit), nil
}

// preferred returns the value of a preference in a Prefer header (RFC 7240), without quotes and
// parameters. If it is given several times, the first one counts. Empty: not given.
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

// parts splits a header at a separator, except within quotes.
func parts(header string, separator byte) (all []string) {
	quoted, from := false, 0
	for i := 0; i < len(header); i++ {
		switch c := header[i]; {
		case c == '\\' && quoted:
			i++
		case c == '"':
			quoted = !quoted
		case c == separator && !quoted:
			all = append(all, header[from:i])
			from = i + 1
		}
	}
	return append(all, header[from:])
}

// withPatience returns a context that ends with the caller's, after d, or when the server drains.
func (a *API) withPatience(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
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
