package enginetest

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

func archiveLaws() []law {
	return []law{
		{"ImportIsBitEqual", importEqual},
		{"ImportGoesOn", importGoesOn},
		{"ImportOfAFork", importOfFork},
		{"ImportRefusesDamage", importDamaged},
		{"ImportRefusesWhatIsThere", importTwice},
		{"ImportRefusesWhatIsAtWork", importAtWork},
		{"ImportTakesOver", importTakesOver},
		{"ExportOfNothing", exportNothing},
	}
}

// export exports the session.
func (s *scene) export() []byte {
	s.t.Helper()
	var out bytes.Buffer
	if err := s.eng.Sessions().Export(s.ctx, s.id, &out); err != nil {
		s.t.Fatalf("Export: %v", err)
	}
	return out.Bytes()
}

// elsewhere is another world without an import.
func (s *scene) elsewhere(open Harness, setup Setup) *scene {
	s.t.Helper()
	there := &scene{World: open(s.t, setup), t: s.t, ctx: s.ctx, id: s.id}
	there.eng = there.Start(s.t)
	return there
}

// take imports a file.
func (s *scene) take(text []byte, how engine.Import) engine.Session {
	s.t.Helper()
	session, err := s.eng.Sessions().Import(s.ctx, bytes.NewReader(text), how)
	if err != nil {
		s.t.Fatalf("Import: %v", err)
	}
	return session
}

func importEqual(t *testing.T, open Harness) {
	setup := Setup{Script: forkScript}
	s := begin(t, open, setup)
	s.say("go")
	s.rest()
	want := s.export()

	there := s.elsewhere(open, setup)
	got := there.take(want, engine.Import{})
	if again := there.export(); !bytes.Equal(again, want) {
		t.Errorf("exported again it is\n%s\nwant\n%s", again, want)
	}
	if known, err := s.eng.Sessions().Get(s.ctx, s.id); err != nil || !reflect.DeepEqual(got, known) {
		t.Errorf("got %+v, want %+v, %v", got, known, err)
	}
	if there.journalText() != s.journalText() {
		t.Errorf("the journal is\n%s", there.journalText())
	}
	for end := time.Now().Add(time.Minute); !bytes.Equal(s.export(), s.export()); {
		// a driver may still read the journal once more, which changes the row
		if time.Now().After(end) {
			t.Fatal("an export changes the session")
		}
	}
}

func importGoesOn(t *testing.T, open Harness) {
	setup := Setup{Script: forkScript}
	s := begin(t, open, setup)
	s.say("go")
	s.rest()
	there := s.elsewhere(open, setup)
	there.take(s.export(), engine.Import{})
	there.say("go on")
	there.rest()
	there.crash()
	there.say("go on")
	there.rest()

	if there.final() != "it goes on" || there.turns() != s.turns()+2 {
		t.Errorf("after %d turns it says %q", there.turns(), there.final())
	}
	for tool, n := range there.effects() {
		if n > 0 {
			t.Errorf("%s had %d effects again", tool, n)
		}
	}
}

func importOfFork(t *testing.T, open Harness) {
	setup := Setup{Script: forkScript}
	s := begin(t, open, setup)
	s.say("go")
	s.rest()
	f := s.fork(engine.Fork{At: 9})
	there := f.elsewhere(open, setup)
	there.take(f.export(), engine.Import{}) // without its source
	there.paired()
	there.say("go on")
	there.rest()

	if there.final() != "it goes on" {
		t.Errorf("it says %q", there.final())
	}
}

// importDamaged pins that a file is imported completely or not at all, wherever it was truncated or
// modified.
func importDamaged(t *testing.T, open Harness) {
	setup := Setup{Script: oneTool("note", "{text: abc}")}
	s := begin(t, open, setup)
	s.say("go")
	s.rest()
	whole := s.export()
	lines := bytes.SplitAfter(whole, []byte("\n"))
	there := s.elsewhere(open, setup)
	damaged := map[string][]byte{
		"nothing": nil, "no JSON": []byte("hello\n"), "another JSON": []byte("{}\n"),
		"more":            append(bytes.Clone(whole), '\n'),
		"another version": bytes.Replace(whole, []byte(`"version":1`), []byte(`"version":2`), 1),
		"another kind":    bytes.Replace(whole, []byte(`"kind":"call"`), []byte(`"kind":"cull"`), 1),
		"another state":   bytes.Replace(whole, []byte(`"at_rest":true`), []byte(`"at_rest":false`), 1),
		"a changed word":  bytes.Replace(whole, []byte("abc"), []byte("abd"), 1),
	}
	for i := range lines[:len(lines)-1] {
		start := len(bytes.Join(lines[:i], nil))
		damaged["cut before line "+lineName(i)] = whole[:start]
		damaged["cut in line "+lineName(i)] = whole[:start+len(lines[i])/2]
		damaged["without line "+lineName(i)] = append(bytes.Clone(whole[:start]), whole[start+len(lines[i]):]...)
	}
	for what, text := range damaged {
		_, err := there.eng.Sessions().Import(s.ctx, bytes.NewReader(text), engine.Import{TakeOver: true})
		if !errors.Is(err, perdure.Invalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if list, err := there.eng.Sessions().List(s.ctx, 0); err != nil || len(list) != 0 {
		t.Errorf("%d sessions are there, %v", len(list), err)
	}
}

// lineName names a line of a file; the first line is 1.
func lineName(i int) string { return strings.Repeat("I", i+1) }

func importTwice(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: oneTool("note", "{text: a}")})
	s.say("go")
	s.rest()
	text := s.export()
	_, err := s.eng.Sessions().Import(s.ctx, bytes.NewReader(text), engine.Import{TakeOver: true})

	if !errors.Is(err, perdure.Conflict) || !bytes.Equal(s.export(), text) {
		t.Errorf("got %v", err)
	}
}

func importAtWork(t *testing.T, open Harness) {
	setup := Setup{Script: oneTool("hold_note", "{}")}
	s := begin(t, open, setup)
	s.say("go")
	s.Entered(t, "hold_note", 1)
	there := s.elsewhere(open, setup)
	_, err := there.eng.Sessions().Import(s.ctx, bytes.NewReader(s.export()), engine.Import{})
	list, listed := there.eng.Sessions().List(s.ctx, 0)
	s.Release("hold_note")
	s.rest()

	if !errors.Is(err, perdure.Conflict) || listed != nil || len(list) != 0 {
		t.Errorf("got %v, %d sessions", err, len(list))
	}
}

// importTakesOver pins that a session with running work continues elsewhere as after a crash:
// repeatable calls run again under the same key, and others are unknown.
func importTakesOver(t *testing.T, open Harness) {
	setup := Setup{Script: detachingScript(ask("hold_note", "{}"), ask("hold_charge", "{}"))}
	s := begin(t, open, setup)
	s.say("go")
	s.Entered(t, "hold_note", 1)
	s.Entered(t, "hold_charge", 1)
	text := s.export()
	s.Kill(t)

	there := s.elsewhere(open, setup)
	there.take(text, engine.Import{TakeOver: true})
	there.Entered(t, "hold_note", 1)
	there.Release("hold_note")
	there.rest()

	got := there.results()
	if len(got) != 2 || strings.Contains(got[0], "error") || !strings.Contains(got[1], perdure.TextUnknown) {
		t.Errorf("got %q; journal:\n%s", got, there.journalText())
	}
	if keys := there.Effects("hold_note"); len(keys) != 1 || keys[0] != s.Effects("hold_note")[0] ||
		len(there.Effects("hold_charge")) != 0 {
		t.Errorf("the effects there are %v and %v", keys, there.Effects("hold_charge"))
	}
}

func exportNothing(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: oneTool("note", "{text: a}")})
	var out bytes.Buffer
	err := s.eng.Sessions().Export(s.ctx, "session_019aa0000000700080000000000000fb", &out)

	if !errors.Is(err, perdure.NotFound) || out.Len() > 0 {
		t.Errorf("got %v and %d bytes", err, out.Len())
	}
}
