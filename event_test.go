package perdure_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure"
)

// facts has one zero fact of each type that this version writes.
func facts() []perdure.Fact {
	return []perdure.Fact{
		perdure.SessionCreated{}, perdure.SessionUpdated{}, perdure.SessionActivated{}, perdure.SessionIdled{}, perdure.SessionStopped{},
		perdure.SessionPauses{}, perdure.SessionResumes{},
		perdure.ScheduleCreated{}, perdure.ScheduleFired{}, perdure.ScheduleSkipped{}, perdure.SchedulePaused{}, perdure.ScheduleCanceled{},
		perdure.MessageReceived{}, perdure.TurnStarted{}, perdure.InterruptRequested{},
		perdure.TurnCompleted{}, perdure.TurnFailed{}, perdure.TurnCanceled{}, perdure.TurnSealed{},
		perdure.ReasonStarted{}, perdure.ReasonCompleted{}, perdure.ReasonRecovered{},
		perdure.OutputStarted{}, perdure.OutputCompleted{}, perdure.Generation{},
		perdure.ActStarted{}, perdure.ActCompleted{}, perdure.ToolStarted{}, perdure.ToolTakenOver{}, perdure.ToolCompleted{}, perdure.ToolEvent{},
		perdure.ToolUnknown{}, perdure.ToolResolved{}, perdure.TranscriptRepaired{},
		perdure.TaskCreated{}, perdure.TaskUpdated{}, perdure.TaskReattached{}, perdure.TaskResolved{},
		perdure.TaskCancelRequested{}, perdure.TaskCancelReceipt{}, perdure.TaskDelivered{}, perdure.TaskPruned{}, perdure.DeliveryHeld{},
		perdure.SessionAwaits{}, perdure.ToolDetachRequested{}, perdure.ToolDetachRefused{}, perdure.ToolDetached{}, perdure.ToolCallRequested{}, perdure.CallReplanned{},
		perdure.ApprovalRequested{}, perdure.ApprovalResolved{}, perdure.TaskMessageSent{}, perdure.TaskMessageReceived{},
		perdure.ContextCompacted{}, perdure.OutputReplaced{}, perdure.LoopDetected{}, perdure.SessionForked{},
		perdure.AuditRecorded{}, perdure.ResourceUpdated{}, perdure.LeaseExpired{}, perdure.LeaseCleanupFailed{}, perdure.FileWritten{}, perdure.RequestDenied{},
		perdure.BudgetWarning{}, perdure.BudgetPaused{}, perdure.BudgetExhausted{}, perdure.BudgetResumed{},
	}
}

// TestFactsAreListed finds a fact that the tests of this file forgot.
func TestFactsAreListed(t *testing.T) {
	t.Parallel()
	listed := map[string]bool{"UnknownFact": true}
	types := map[perdure.EventType]bool{}
	for _, fact := range facts() {
		listed[reflect.TypeOf(fact).Name()] = true
		if types[fact.EventType()] {
			t.Errorf("two facts are %s", fact.EventType())
		}
		types[fact.EventType()] = true
	}
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, source := range sources {
		syntax, err := parser.ParseFile(token.NewFileSet(), source, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range syntax.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || fn.Recv == nil || fn.Name.Name != "EventType" {
				continue
			}
			if of, ok := fn.Recv.List[0].Type.(*ast.Ident); ok && !listed[of.Name] {
				t.Errorf("%s: %s is a fact and is not listed", source, of.Name)
			}
		}
	}
}

// TestEventRoundTrip fills every field of every fact: what was written is read back, and written
// alike again.
func TestEventRoundTrip(t *testing.T) {
	t.Parallel()
	for _, zero := range facts() {
		t.Run(string(zero.EventType()), func(t *testing.T) {
			t.Parallel()
			filled := reflect.New(reflect.TypeOf(zero)).Elem()
			fill(filled, 0)

			got, want := roundTrip(t, filled.Interface().(perdure.Fact))
			if diff := cmp.Diff(got, want); diff != "" {
				t.Errorf("read back (-got +want):\n%s", diff)
			}
			roundTrip(t, zero)
		})
	}
}

// roundTrip writes an event and reads it back; written again it has the same bytes.
func roundTrip(t *testing.T, fact perdure.Fact) (got, want perdure.Event) {
	t.Helper()
	want = perdure.Event{
		ID: "event_1", Seq: 7, At: time.Date(2026, 11, 21, 3, 4, 5, 6000, time.UTC), Session: sessionID, Actor: "ada",
		Turn: "turn_1", Call: "call-1", Task: "task_1", Attempt: 2, Fact: fact,
	}
	text, err := perdure.EncodeEvent(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err = perdure.DecodeEvent(text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if again, err := perdure.EncodeEvent(got); err != nil || !bytes.Equal(again, text) {
		t.Errorf("written again: %v\n got %s\nwant %s", err, again, text)
	}
	return got, want
}

// fill sets every field that is serialised to something that is not its zero.
func fill(v reflect.Value, depth int) {
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(time.Date(2026, 1, 2, 3, 4, 5, 678000, time.UTC)))
		return
	case json.RawMessage:
		v.SetBytes([]byte(`{"n":[1.50,"x"]}`))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("text <&> ü")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(depth) + 3)
	case reflect.Float64:
		v.SetFloat(0.1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), depth+1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), depth+1)
		fill(v.Index(1), depth+2)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, depth+1)
		fill(value, depth+1)
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Tag.Get("json") != "-" {
				fill(v.Field(i), depth+i)
			}
		}
	default:
		panic("fill: no value for " + v.Type().String())
	}
}

// TestEventForm pins the stored form: it is for ever.
func TestEventForm(t *testing.T) {
	t.Parallel()
	e := perdure.Event{
		ID: "event_1", Seq: 3, At: time.Date(2026, 11, 21, 4, 0, 0, 0, time.FixedZone("", 3600)), Session: "session_1",
		Actor: "user", Fact: perdure.InterruptRequested{By: "ada"},
	}
	want := `{"v":1,"id":"event_1","seq":3,"type":"turn.interrupt_requested","at":"2026-11-21T03:00:00Z","session_id":"session_1","actor":"user","data":{"by":"ada"}}`
	result := perdure.Event{Seq: 4, Fact: perdure.ToolCompleted{CallID: "a", Result: perdure.ToolResult{Result: json.RawMessage(`"<&>"`), Error: "<&>"}}}
	if text, err := perdure.EncodeEvent(result); err != nil || !bytes.Contains(text, []byte(`"result":"<&>","error":"<&>"`)) {
		t.Errorf("a result is stored with other bytes than the ledger's: got %s, %v", text, err)
	}

	text, err := perdure.EncodeEvent(e)
	if err != nil || string(text) != want {
		t.Errorf("%v\n got %s\nwant %s", err, text, want)
	}
	served, err := json.Marshal(e)
	if err != nil || string(served) != want {
		t.Errorf("served: %v\n got %s\nwant %s", err, served, want)
	}
	var read perdure.Event
	if err := json.Unmarshal([]byte(want), &read); err != nil || read.Fact != e.Fact || !read.At.Equal(e.At) {
		t.Errorf("read: got %+v, %v; want %+v", read, err, e)
	}
}

// TestUnknownFactIsKept is EV10: a type of a newer version is read with its bytes and written as it
// was stored.
func TestUnknownFactIsKept(t *testing.T) {
	t.Parallel()
	for _, data := range []string{`{"b":1,"a":[1.0,2e3,{"z":null}]}`, `null`, `"text"`, `[]`, `12345678901234567890.10`, `{"a":1,"a":2}`} {
		text := `{"v":1,"id":"event_1","seq":3,"type":"session.painted","at":"2026-11-21T03:00:00Z","session_id":"session_1","data":` + data + `}`

		e, err := perdure.DecodeEvent([]byte(text))
		if err != nil {
			t.Fatal(err)
		}

		if u, ok := e.Fact.(perdure.UnknownFact); !ok || u.Kind != "session.painted" || string(u.Data) != data {
			t.Errorf("fact: got %+v, want session.painted with %s", e.Fact, data)
		}
		if again, err := perdure.EncodeEvent(e); err != nil || string(again) != text {
			t.Errorf("written again: %v\n got %s\nwant %s", err, again, text)
		}
	}
}

// TestUnknownFieldsAreSkipped is the other half of EV10: fields of a newer version are skipped.
func TestUnknownFieldsAreSkipped(t *testing.T) {
	t.Parallel()
	text := `{"v":1,"id":"e","seq":1,"type":"session.updated","at":"2026-11-21T03:00:00Z","session_id":"s","span_id":"x","data":{"title":"t","color":"teal"}}`

	e, err := perdure.DecodeEvent([]byte(text))

	if want := (perdure.SessionUpdated{Title: "t"}); err != nil || !reflect.DeepEqual(e.Fact, want) {
		t.Errorf("got %+v, %v; want %+v", e.Fact, err, want)
	}
}

func TestDecodeEventRefuses(t *testing.T) {
	t.Parallel()
	good := `{"v":1,"id":"e","seq":1,"type":"session.updated","at":"2026-11-21T03:00:00Z","session_id":"s","data":{"title":"t"}}`
	for _, c := range []struct{ name, text string }{
		{"nothing", ``},
		{"no_object", `[]`},
		{"cut_off", good[:len(good)-1]},
		{"text_after_it", good + good},
		{"no_version", strings.Replace(good, `"v":1,`, ``, 1)},
		{"a_later_version", strings.Replace(good, `"v":1`, `"v":2`, 1)},
		{"no_type", strings.Replace(good, `session.updated`, ``, 1)},
		{"no_payload", strings.Replace(good, `,"data":{"title":"t"}`, ``, 1)},
		{"another_payload", strings.Replace(good, `{"title":"t"}`, `{"title":7}`, 1)},
		{"no_moment", strings.Replace(good, `2026-11-21`, `2026-13-41`, 1)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got, err := perdure.DecodeEvent([]byte(c.text)); !errors.Is(err, perdure.Invalid) {
				t.Errorf("got %+v, %v; want Invalid", got, err)
			}
			var e perdure.Event
			if err := json.Unmarshal([]byte(c.text), &e); err == nil {
				t.Errorf("read as JSON: got %+v, want an error", e)
			}
		})
	}
	if _, err := perdure.EncodeEvent(perdure.Event{Seq: 1}); !errors.Is(err, perdure.Invalid) {
		t.Errorf("an event without a fact is written: got %v, want Invalid", err)
	}
}

// TestStoredSurrogates: a call that an older version journalled is read and applied, although a new
// one with such arguments is refused.
func TestStoredSurrogates(t *testing.T) {
	t.Parallel()
	line := `{"v":1,"id":"e1","seq":1,"type":"message.received","at":"2026-11-21T03:00:00Z","session_id":"s","data":{"message":{"role":"user","parts":[{"type":"text","text":"\ud800"}]}}}`

	e, err := perdure.DecodeEvent([]byte(line))

	if err != nil {
		t.Fatal(err)
	}
	if err := perdure.NewSession(e.Session).Apply(e); errors.Is(err, perdure.Invalid) && strings.Contains(err.Error(), "JSON") {
		t.Errorf("got %v", err)
	}
	if _, err := perdure.EncodeEvent(e); err != nil {
		t.Errorf("it cannot be written again: %v", err)
	}
}

// FuzzDecodeEvent reads anything. What is read can be written, and that is read and written alike
// again.
func FuzzDecodeEvent(f *testing.F) {
	for _, fixture := range journalFixtures(f) {
		text, err := os.ReadFile(fixture)
		if err != nil {
			f.Fatal(err)
		}
		for _, line := range bytes.Split(bytes.TrimSpace(text), []byte("\n")) {
			f.Add(line)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		e, err := perdure.DecodeEvent(text)
		if err != nil {
			if !errors.Is(err, perdure.Invalid) {
				t.Fatalf("got %v, want Invalid", err)
			}
			return
		}
		first, err := perdure.EncodeEvent(e)
		if y := e.At.UTC().Year(); err != nil && y >= 0 && y <= 9999 {
			t.Fatalf("%q is read and cannot be written: %v", text, err)
		} else if err != nil {
			return
		}
		again, err := perdure.DecodeEvent(first)
		if err != nil {
			t.Fatalf("%q is not read back: %v", first, err)
		}
		if second, err := perdure.EncodeEvent(again); err != nil || !bytes.Equal(second, first) {
			t.Errorf("written again: %v\n got %s\nwant %s", err, second, first)
		}
		_ = perdure.NewSession(e.Session).Apply(e) // whatever it says, it does not panic
	})
}
