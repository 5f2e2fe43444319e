package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/perdure/perdure"
)

// scannedAtMost is how many events one request of a filter reads. A longer journal takes several
// requests, each of which continues where the previous one stopped.
const scannedAtMost = 10_000

// eventFilter selects the events of a page.
type eventFilter struct {
	types        typeFilter
	of, actor    string
	text         []byte // as it stands in an encoded event, in lower case
	since, until time.Time
}

// newEventFilter returns the filter of a request.
func newEventFilter(in *eventQuery) (f eventFilter, err error) {
	if f.types, err = newTypeFilter(in.Types); err != nil {
		return f, err
	}
	f.of, f.actor, f.since, f.until = in.Of, in.Actor, in.Since, in.Until
	if in.Text == "" {
		return f, nil
	}
	quoted, err := json.Marshal(in.Text)
	if err != nil {
		return f, fmt.Errorf("encode the text: %w", err)
	}
	f.text = bytes.ToLower(quoted[1 : len(quoted)-1])
	return f, nil
}

// isBounded reports whether a request reads at most scannedAtMost events. A filter by types alone
// reads on until the page is full.
func (f eventFilter) isBounded() bool {
	return f.of != "" || f.actor != "" || f.text != nil || !f.since.IsZero() || !f.until.IsZero()
}

// encode returns an event as the response has it; selected is false if the filter does not want it.
func (f eventFilter) encode(e perdure.Event, d Disclosure) (text []byte, selected bool, err error) {
	switch {
	case !f.types.matches(string(e.Type())),
		f.actor != "" && f.actor != e.Actor,
		!f.since.IsZero() && e.At.Before(f.since),
		!f.until.IsZero() && e.At.After(f.until):
		return nil, false, nil
	}
	text, err = perdure.EncodeEvent(disclose(e, d))
	if err != nil || !perdure.EventNames(text, f.of) {
		return nil, false, err
	}
	if f.text != nil && !bytes.Contains(bytes.ToLower(text), f.text) {
		return nil, false, nil
	}
	return text, true, nil
}
