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
		for preference := range strings.SplitSeq(w.Prefer, ",") {
			name, value, _ := strings.Cut(strings.TrimSpace(preference), "=")
			if strings.EqualFold(strings.TrimSpace(name), "wait") {
				text = strings.TrimSpace(value)
			}
		}
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
