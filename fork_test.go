package perdure_test

import (
	"errors"
	"testing"

	"github.com/perdure/perdure"
)

// TestForkIsABeginning: a fork copies another session's transcript before its first message, and
// never later.
func TestForkIsABeginning(t *testing.T) {
	t.Parallel()
	forked := perdure.SessionForked{
		From: "session_other", Seq: 9, Transcript: []perdure.Message{perdure.Text("hello")}, UsedCalls: []perdure.CallID{"call-1"},
		Compaction: perdure.Compaction{Masked: 1},
	}
	s := perdure.NewSession(sessionID)
	for i, fact := range []perdure.Fact{perdure.SessionCreated{}, forked} {
		if err := s.Apply(perdure.Event{Seq: int64(i + 1), Fact: fact}); err != nil {
			t.Fatal(err)
		}
	}
	if used, _ := s.UsedCalls.Get("call-1"); !used || len(s.Transcript) != 1 || s.Compacted.Masked != 1 || !s.AtRest() {
		t.Errorf("got %+v", s)
	}
	if err := s.Apply(perdure.Event{Seq: 3, Fact: forked}); !errors.Is(err, perdure.Conflict) {
		t.Errorf("a fork in the middle: %v", err)
	}
}
