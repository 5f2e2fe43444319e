package host

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/sessionsql"
	"github.com/perdure/perdure/store"
)

// sampleDumps are two sessions, parent and child, with a row of every kind and binary content.
func sampleDumps(t testing.TB) []archivedSession {
	t.Helper()
	const root, child = "session_019aa0000000700080000000000000aa", "session_019aa0000000700080000000000000ab"
	at := time.Date(2026, 1, 2, 3, 4, 5, 678_901_000, time.UTC)
	dump := func(id perdure.SessionID) store.SessionDump {
		body, err := perdure.EncodeEvent(perdure.Event{ID: perdure.EventID("event_" + string(id[8:])), Seq: 1, At: at, Session: id, Fact: perdure.SessionCreated{}})
		if err != nil {
			t.Fatal(err)
		}
		return store.SessionDump{
			Session: store.Session{ID: id, Root: root, LastSeq: 1, Secret: perdure.Secret{7}, CreatedAt: at, UpdatedAt: at},
			Events:  []json.RawMessage{body},
		}
	}
	one, two := dump(root), dump(child)
	two.Session.Parent, two.Session.Title = root, "a <b> \xff"
	one.Calls = []perdure.Call{{
		Key: perdure.CallKey{Session: root, Call: "c\xff"}, Tool: "t", Args: []byte("{ \"a\" : 1 }"), State: perdure.CallSettled, Token: "secret",
		Result: &perdure.ToolResult{CallID: "c", Result: []byte(`"<&>"`)}, ClaimedAt: at, SettledAt: at,
	}}
	one.Tasks = []perdure.Task{{ID: "task_1", Session: root, State: perdure.TaskFailed, Spec: perdure.TaskSpec{Arguments: []byte(`{}`)}, CreatedAt: at, HeartbeatAt: at}}
	one.Messages = []perdure.TaskMessage{{ID: "tmsg_1", Task: "task_1", Text: "m", Data: []byte("{ }"), CreatedAt: at}}
	one.Logs = []store.TaskChunk{{Task: "task_1", LogChunk: store.LogChunk{Stream: "stdout", Attempt: 1, At: at, Bytes: []byte("\x00\xff")}}}
	one.Deliveries = []store.Delivery{{Session: root, Task: "task_1", Attempt: 1, State: perdure.TaskFailed, Settled: at, Claimed: true}}
	one.Approvals = []perdure.Approval{{ID: "appr_1", Session: root, Call: "c\xff", Args: []byte(`{}`), State: perdure.ApprovalVoid, RequestedAt: at}}
	one.Spawns = []store.Spawn{{Key: perdure.CallKey{Session: root, Call: "c"}, Root: root, Child: child, Token: "t", State: store.SpawnSettled, Status: perdure.TaskFailed, Schema: []byte("{ }"), CreatedAt: at, SettledAt: at}}
	one.Partials = []store.Partial{{Session: root, Message: "message_1", Text: "so far", At: at}}
	one.Files = []store.File{{Path: "/d", Directory: true, CreatedAt: at, UpdatedAt: at}, {Path: "/d/\xff", Content: []byte("\xff"), SizeBytes: 1, CreatedAt: at, UpdatedAt: at}}
	return []archivedSession{{SessionDump: one}, {SessionDump: two}}
}

// lines writes sessions as an archive.
func lines(t testing.TB, dumps []archivedSession) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := writeArchive(&out, dumps, nil); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestArchiveKeepsEveryByte reads back what was written, including binary content.
func TestArchiveKeepsEveryByte(t *testing.T) {
	t.Parallel()
	want := sampleDumps(t)
	text := lines(t, want)

	head, got, err := readArchive(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmp.AllowUnexported(archivedSession{})); diff != "" {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
	if again := lines(t, got); !bytes.Equal(again, text) || !head.AtRest {
		t.Errorf("written again, at rest %t:\n%s\nwant\n%s", head.AtRest, again, text)
	}
}

// TestArchiveHasWhatStandsBeside reads back images and databases. An archive that has them, or
// leaves something out, has a version that older programs refuse, because they would lose it; an
// archive without them stays readable for them.
func TestArchiveHasWhatStandsBeside(t *testing.T) {
	t.Parallel()
	want := sampleDumps(t)
	sum := sha256.Sum256([]byte("\x89PNG"))
	want[0].Images = []store.Image{{
		ID: "img_1", Session: want[0].Session.ID, Filename: "a\xff", ContentType: "image/png", SizeBytes: 4, SHA256: hex.EncodeToString(sum[:]),
		Metadata: []byte("{ }"), Data: []byte("\x89PNG"), CreatedAt: want[0].Session.CreatedAt,
	}}
	want[1].databases = []sessionsql.Copy{{Name: "big", Content: bytes.Repeat([]byte("x"), 2*databasePiece+1)}, {Name: "empty"}, {Name: "main", Content: []byte("y")}}
	text := lines(t, want)

	head, got, err := readArchive(bytes.NewReader(text))
	if err != nil || head.Version != archiveVersion {
		t.Fatalf("version %d, %v", head.Version, err)
	}
	// Byte by byte, go-cmp takes minutes over megabytes.
	whole := cmp.FilterValues(func(a, b []byte) bool { return len(a)+len(b) > 0 }, cmp.Comparer(bytes.Equal))
	if diff := cmp.Diff(want, got, whole, cmpopts.EquateEmpty(), cmp.AllowUnexported(archivedSession{})); diff != "" {
		t.Errorf("read back (-want +got):\n%.2000s", diff)
	}
	if again := lines(t, got); !bytes.Equal(again, text) {
		t.Errorf("written again it has %d bytes, want the same %d", len(again), len(text))
	}
	if head, _, err := readArchive(bytes.NewReader(lines(t, sampleDumps(t)))); err != nil || head.Version != firstVersion {
		t.Errorf("without them: version %d, %v", head.Version, err)
	}
	var out bytes.Buffer
	left := []omission{{"secret", "API_KEY", want[0].Session.ID}}
	err = writeArchive(&out, sampleDumps(t), left)
	if head, _, readErr := readArchive(&out); err != nil || readErr != nil || head.Version != archiveVersion || !slices.Equal(head.LeftOut, left) {
		t.Errorf("something left out: %+v, %v, %v", head, err, readErr)
	}
}

// TestArchiveSaysWhichLine: an error names the line.
func TestArchiveSaysWhichLine(t *testing.T) {
	t.Parallel()
	text := string(lines(t, sampleDumps(t)))
	swap := func(from, to string) string { return strings.Replace(text, from, to, 1) }
	for want, damaged := range map[string]string{
		"line 1: it is not an exported session":          "\x1f\x8b\n" + text,
		"line 1: it has format version 9":                swap(`"version":1`, `"version":9`),
		"line 2: a row precedes its session":             strings.Join(append(strings.SplitAfter(text, "\n")[:1], strings.SplitAfter(text, "\n")[2:]...), ""),
		"line 3: unknown row kind \"evil\"":              swap(`"kind":"event"`, `"kind":"evil"`),
		"line 4: invalid JSON at /tokens: unknown field": swap(`"token":"secret"`, `"tokens":"secret"`),
		"line 16: the file is truncated here":            text[:len(text)-1],
		"line 16: the file has 2 rows of kind \"file\"":  swap(`"file":2`, `"file":13`),
		"line 16: the lines before it were modified":     swap("so far", "so fat"),
		"line 17: nothing may follow":                    text + "x",
		"the session's secret":                           swap(`"secret":"07`, `"secret":"0`),
	} {
		_, _, err := readArchive(strings.NewReader(damaged))
		if !errors.Is(err, perdure.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestArchiveIsOneFamily: an archive must contain exactly one tree of sessions, parents first.
func TestArchiveIsOneFamily(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(dumps []archivedSession){
		"a stranger":           func(d []archivedSession) { d[1].Session.Parent = "session_019aa0000000700080000000000000ac" },
		"a second root":        func(d []archivedSession) { d[1].Session.Parent = "" },
		"a child at the front": func(d []archivedSession) { d[0], d[1] = d[1], d[0] },
		"no session id":        func(d []archivedSession) { d[0].Session.ID = "session_1" },
		"a journal of others":  func(d []archivedSession) { d[0].Session.LastSeq = 2 },
	} {
		dumps := sampleDumps(t)
		change(dumps)
		var out bytes.Buffer
		if err := writeArchive(&out, dumps, nil); err != nil {
			continue // it cannot even be written
		}
		if _, _, err := readArchive(&out); !errors.Is(err, perdure.Invalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestArchiveBelievesNoHead: what the first line claims is compared with the sessions.
func TestArchiveBelievesNoHead(t *testing.T) {
	t.Parallel()
	all := bytes.SplitAfter(lines(t, sampleDumps(t)), []byte("\n"))
	all[0] = bytes.Replace(all[0], []byte(`"at_rest":true`), []byte(`"at_rest":false`), 1)
	before := bytes.Join(all[:len(all)-2], nil)
	sum := sha256.Sum256(before)
	end := regexp.MustCompile(`"sha256":"[0-9a-f]+"`).ReplaceAll(all[len(all)-2], fmt.Appendf(nil, `"sha256":"%x"`, sum))

	_, _, err := readArchive(bytes.NewReader(append(before, end...)))
	if !errors.Is(err, perdure.Invalid) || !strings.Contains(err.Error(), "its first line says at_rest false") {
		t.Errorf("got %v", err)
	}
}

// FuzzArchive reads arbitrary input. What it accepts is complete, and is the same when it is
// written again.
func FuzzArchive(f *testing.F) {
	text := lines(f, sampleDumps(f))
	f.Add(text)
	f.Add(text[:len(text)/2])
	f.Add([]byte(`{"format":"perdure-session","version":1,"session_id":"session_019aa0000000700080000000000000aa","at_rest":true}` + "\n" + `{"kind":"end","row":{"counts":{},"sha256":""}}` + "\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		_, dumps, err := readArchive(bytes.NewReader(text))
		if err != nil {
			if !errors.Is(err, perdure.Invalid) && !errors.Is(err, perdure.Limit) {
				t.Errorf("of no kind: %v", err)
			}
			return
		}
		first := lines(t, dumps)
		_, again, err := readArchive(bytes.NewReader(first))
		if err != nil {
			t.Fatalf("it takes what it does not take again: %v", err)
		}
		if second := lines(t, again); !bytes.Equal(first, second) {
			t.Errorf("written again it is\n%s\nwas\n%s", second, first)
		}
	})
}

// FuzzArchiveRow reads rows with arbitrary content. The checksum of a whole file keeps FuzzArchive
// from reaching them.
func FuzzArchiveRow(f *testing.F) {
	for _, line := range bytes.Split(lines(f, sampleDumps(f)), []byte("\n")) {
		var l archiveLine
		if perdure.DecodeKnownJSON(line, &l) == nil && l.Kind != "" {
			f.Add(l.Kind, []byte(l.Row))
		}
	}
	f.Fuzz(func(t *testing.T, kind string, text []byte) {
		d := archivedSession{SessionDump: store.SessionDump{Session: store.Session{ID: "session_019aa0000000700080000000000000aa"}}}
		if kind == "session" {
			_ = readSession(text, &d.SessionDump) // any result will do, but no panic
			return
		}
		if readRow(kind, text, &d) == nil {
			_ = d.Check()
		}
	})
}
