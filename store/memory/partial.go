package memory

import (
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

func (v journalStore) Partial(session perdure.SessionID, message perdure.MessageID) (store.Partial, error) {
	p, ok := v.partials.get(partialKey(session, message))
	if !ok {
		return store.Partial{}, fmt.Errorf("partial %s of session %s: %w", message, session, perdure.NotFound)
	}
	return p, nil
}

func (t journalStore) PutPartial(p store.Partial) error {
	p.At = t.now
	t.partials = t.partials.put(partialKey(p.Session, p.Message), p)
	return nil
}

func (t journalStore) DropPartial(session perdure.SessionID, message perdure.MessageID) error {
	t.partials = t.partials.remove(partialKey(session, message))
	return nil
}

func partialKey(session perdure.SessionID, message perdure.MessageID) string {
	return requestKey(string(session), string(message))
}
