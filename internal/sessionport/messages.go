package sessionport

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// Limits of a page of messages, and how many events one read of the journal returns.
const (
	defaultMessages = 100
	maxMessages     = 1000
	eventPageSize   = 500
)

// messages serves a session's transcript with sequence numbers, folded from the journal.
type messages struct {
	binding

	mu    sync.Mutex       // guards the fields below
	fold  *perdure.Session // nil: nothing read yet
	seqs  []int64          // one for each message of the transcript; never decreasing
	stale bool             // the fold failed in the middle of an event
}

var _ tool.Messages = (*messages)(nil)

// Messages returns the messages that entered the transcript with events after a sequence number.
// The number of a message is that of the event with which the model could first see it: for an
// input, the event of the step that consumed it; for a result, the end of its step. A message that
// a repair inserted has the number of the message before it. The messages of one event are never
// split, so a page may hold more than limit. The next page begins after Source. Invalid: after or
// limit is negative.
func (p *messages) Messages(ctx context.Context, after int64, limit int) (tool.MessagePage, error) {
	if after < 0 || limit < 0 {
		return tool.MessagePage{}, fmt.Errorf("read messages: %w: after %d and limit %d must not be negative",
			perdure.Invalid, after, limit)
	}
	limit = cmp.Or(limit, defaultMessages)
	limit = min(limit, maxMessages)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.catchUp(ctx); err != nil {
		return tool.MessagePage{}, fmt.Errorf("read messages: %w", err)
	}
	page := tool.MessagePage{Source: p.fold.Seq}
	first, _ := slices.BinarySearch(p.seqs, after+1)
	last := p.pageEnd(first, limit)
	for i, m := range p.fold.Transcript[first:last] {
		page.Messages = append(page.Messages, tool.NumberedMessage{Seq: p.seqs[first+i], Message: m})
	}
	if last < len(p.seqs) {
		page.More, page.Source = true, p.seqs[last-1]
	}
	return page, nil
}

// pageEnd is the end of a page that begins at first: the end of an event, at least one event
// further.
func (p *messages) pageEnd(first, limit int) int {
	if len(p.seqs)-first <= limit {
		return len(p.seqs)
	}
	last := first + limit
	for last > first && p.seqs[last] == p.seqs[last-1] {
		last--
	}
	if last > first {
		return last
	}
	last, _ = slices.BinarySearch(p.seqs, p.seqs[first]+1)
	return last
}

// catchUp folds the events of the journal that the fold does not have, page by page.
func (p *messages) catchUp(ctx context.Context) error {
	if p.fold == nil || p.stale {
		p.fold, p.seqs, p.stale = perdure.NewSession(p.session), nil, false
	}
	for {
		var events []perdure.Event
		err := p.store.View(ctx, func(r store.Reader) (err error) {
			if _, err = r.Sessions().Get(p.session); err == nil {
				events, err = r.Journal().Events(p.session, p.fold.Seq, eventPageSize)
			}
			return err
		})
		if err != nil {
			return err
		}
		for _, e := range events {
			if err := p.apply(e); err != nil {
				p.stale = true
				return err
			}
		}
		if len(events) < eventPageSize {
			return nil
		}
	}
}

// apply folds one event and numbers the messages that came with it.
func (p *messages) apply(e perdure.Event) error {
	before := p.fold.Transcript
	if err := p.fold.Apply(e); err != nil {
		return err
	}
	after := p.fold.Transcript
	if _, repair := e.Fact.(perdure.TranscriptRepaired); repair {
		p.renumber(before, after)
	}
	for len(p.seqs) < len(after) {
		p.seqs = append(p.seqs, e.Seq)
	}
	return nil
}

// renumber adjusts the numbers after a repair, which inserts, removes or replaces one message
// (TN16).
func (p *messages) renumber(before, after []perdure.Message) {
	at := 0
	for at < len(before) && at < len(after) && reflect.DeepEqual(before[at], after[at]) {
		at++
	}
	switch {
	case len(after) > len(before) && at < len(before) && at > 0:
		p.seqs = slices.Insert(p.seqs, at, p.seqs[at-1])
	case len(after) < len(before):
		p.seqs = slices.Delete(p.seqs, at, at+1)
	}
}
