package local_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/internal/sessionsql"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
)

// housed is an engine with a data directory.
type housed struct {
	*shop
	dir string
}

// keeps is a tool that runs a function of the test with the ports of its session.
type keeps struct {
	do func(context.Context, tool.Env) error
}

func (*keeps) Spec() tool.Spec {
	return tool.Spec{Name: "keep", Description: "x", Class: perdure.Idempotent, Trusted: true}
}
func (k *keeps) Run(ctx context.Context, _ tool.Call, env tool.Env) tool.Result {
	if err := k.do(ctx, env); err != nil {
		return tool.Error(err.Error())
	}
	return tool.Success("done")
}

const keepOnce = `
rules:
  - when: {last_role: user}
    calls: [{name: keep, args: {}}]
steps: [{text: done, repeat: true}]`

func openHoused(t *testing.T) (*housed, *keeps) {
	t.Helper()
	h, k := &housed{dir: t.TempDir()}, &keeps{}
	st := memory.New(memory.Config{})
	home, err := local.OpenDataDir(t.Context(), local.DataDirConfig{Dir: h.dir, Store: st})
	if err != nil {
		t.Fatal(err)
	}
	h.shop = openShop(t, keepOnce, local.Config{Store: st, Storage: home.Storage}, k)
	h.run()
	t.Cleanup(func() {
		if err := errors.Join(h.end(), home.Close()); err != nil {
			t.Error(err)
		}
	})
	return h, k
}

// with runs a function with the ports of a session, as a call of its model.
func (h *housed) with(k *keeps, do func(context.Context, tool.Env) error) {
	h.t.Helper()
	var failed error
	ran := false
	k.do = func(ctx context.Context, env tool.Env) error {
		ran, failed = true, do(ctx, env)
		return failed
	}
	h.say("go")
	h.rest()
	if !ran || failed != nil {
		h.t.Fatalf("ran %t: %v", ran, failed)
	}
}

// execute runs statements in the database "notes".
func execute(texts ...string) func(context.Context, tool.Env) error {
	return func(ctx context.Context, env tool.Env) error {
		for _, text := range texts {
			if _, err := env.SQL.Execute(ctx, tool.SQLStatement{Database: "notes", Text: text}); err != nil {
				return err
			}
		}
		return nil
	}
}

// rows reads the rows in a session's database.
func (h *housed) rows(k *keeps) (all string) {
	h.t.Helper()
	h.with(k, func(ctx context.Context, env tool.Env) error {
		found, err := env.SQL.Query(ctx, tool.SQLStatement{Database: "notes", Text: "SELECT word FROM note ORDER BY word"})
		all = fmt.Sprint(found.Rows)
		return err
	})
	return all
}

func (h *housed) export() []byte {
	h.t.Helper()
	var out bytes.Buffer
	if err := h.eng.Sessions().Export(h.ctx, h.id, &out); err != nil {
		h.t.Fatal(err)
	}
	return out.Bytes()
}

func png(n int) []byte {
	return append([]byte("\x89PNG\r\n\x1a\n"), bytes.Repeat([]byte("p"), n)...)
}

// filledSession creates a session with a database, a small image, and one that is stored as a blob.
func filledSession(t *testing.T) (h *housed, k *keeps, images []perdure.ImageID) {
	t.Helper()
	h, k = openHoused(t)
	h.session()
	h.with(k, execute("CREATE TABLE note (word TEXT)", "INSERT INTO note VALUES ('one'), ('two')"))
	h.with(k, func(ctx context.Context, env tool.Env) error {
		for _, n := range []int{10, store.MaxInlineImageBytes + 1} {
			stat, err := env.Images.Create(ctx, tool.ImageWrite{Filename: "a.png", Data: png(n)})
			if err != nil {
				return err
			}
			images = append(images, stat.ID)
		}
		return nil
	})
	return h, k, images
}

// TestExportCarriesDatabasesAndImages moves a session with everything that is stored outside the
// store. Exporting it again yields the same bytes.
func TestExportCarriesDatabasesAndImages(t *testing.T) {
	t.Parallel()
	h, _, images := filledSession(t)
	text := h.export()
	there, k := openHoused(t)
	if _, err := there.eng.Sessions().Import(t.Context(), bytes.NewReader(text), engine.Import{}); err != nil {
		t.Fatal(err)
	}
	there.id = h.id
	if again := there.export(); !bytes.Equal(again, text) {
		a, b := bytes.Split(again, []byte("\n")), bytes.Split(text, []byte("\n"))
		for i := range min(len(a), len(b)) {
			if !bytes.Equal(a[i], b[i]) {
				t.Errorf("exported again, line %d of %d is\n%.300s\nwant, of %d,\n%.300s", i+1, len(a), a[i], len(b), b[i])
			}
		}
	}
	if _, err := there.eng.Sessions().Import(t.Context(), bytes.NewReader(text), engine.Import{}); !errors.Is(err, perdure.Conflict) {
		t.Errorf("imported twice: %v", err)
	}

	if got := there.rows(k); got != "[[one] [two]]" {
		t.Errorf("the database has %s", got)
	}
	there.with(k, func(ctx context.Context, env tool.Env) error {
		for i, n := range []int{10, store.MaxInlineImageBytes + 1} {
			found, err := env.Images.Image(ctx, images[i])
			if err != nil || !bytes.Equal(found.Data, png(n)) {
				return fmt.Errorf("image %d has %d bytes: %w", i, len(found.Data), err)
			}
		}
		return execute("INSERT INTO note VALUES ('three')")(ctx, env)
	})
	if blobs, _ := filepath.Glob(filepath.Join(there.dir, "blobs", "*", "*")); len(blobs) != 1 {
		t.Errorf("the large image stands in %v", blobs)
	}
}

// TestForkCopiesDatabases forks a session: each of the two has its own database, and both can read
// the images.
func TestForkCopiesDatabases(t *testing.T) {
	t.Parallel()
	h, k, images := filledSession(t)
	order := engine.Fork{ID: "session_019aa0000000700080000000000000ff", Effects: perdure.ForkAsks}
	f, err := h.eng.Sessions().Fork(t.Context(), h.id, order)
	if err != nil {
		t.Fatal(err)
	}
	from := h.id
	h.with(k, execute("DELETE FROM note"))
	_, err = os.Stat(filepath.Join(h.dir, "sql", string(f.ID), "notes.db"))
	if err != nil {
		t.Errorf("the fork has no database: %v", err)
	}

	// Like a client that lost the response and retries when the fork has already changed.
	plain, err := h.eng.Sessions().Fork(t.Context(), from, engine.Fork{ID: "session_019aa0000000700080000000000000fe", Effects: perdure.ForkDryRun})
	if err != nil {
		t.Fatal(err)
	}
	if again, err := h.eng.Sessions().Fork(t.Context(), from, order); err != nil || again.ID != f.ID {
		t.Errorf("the same fork again: %s, %v", again.ID, err)
	}
	if got := notes(t, h, f.ID); got != "[[one] [two]]" {
		t.Errorf("the fork, which was asked for again, has %s", got)
	}
	if got := notes(t, h, plain.ID); got != "[]" {
		t.Errorf("a later fork has %s", got)
	}

	var out bytes.Buffer
	if err := h.eng.Sessions().Export(t.Context(), f.ID, &out); err != nil {
		t.Fatal(err)
	}
	head, _, _ := bytes.Cut(out.Bytes(), []byte("\n"))
	for _, id := range images {
		if !strings.Contains(string(head), `{"kind":"image","name":"`+string(id)+`","session_id":"`+string(from)+`"}`) {
			t.Errorf("the archive of the fork does not name %s, which it has from the other session: %s", id, head)
		}
	}
}

// notes reads the notes in a session's database.
func notes(t *testing.T, h *housed, id perdure.SessionID) string {
	t.Helper()
	databases, err := sessionsql.New(sessionsql.Config{Dir: filepath.Join(h.dir, "sql")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = databases.Close() }() // it was only read
	found, err := databases.For(id).Query(t.Context(), tool.SQLStatement{Database: "notes", Text: "SELECT word FROM note ORDER BY word"})
	if err != nil {
		t.Error(err)
	}
	return fmt.Sprint(found.Rows)
}

// TestExportNamesWhatItLeaves: the first line of an archive names what the archive leaves out.
func TestExportNamesWhatItLeaves(t *testing.T) {
	t.Parallel()
	h, k := openHoused(t)
	h.session()
	if err := h.eng.Secrets().Set(t.Context(), h.id, engine.SecretWrite{Name: "API_KEY", Value: "correct horse"}); err != nil {
		t.Fatal(err)
	}
	h.with(k, func(ctx context.Context, env tool.Env) error {
		_, err := env.Resources.Register(ctx, tool.Resource{ID: "box", Kind: "sandbox", Name: "Box"})
		return err
	})

	text := h.export()
	head, _, _ := bytes.Cut(text, []byte("\n"))
	for _, want := range []string{`{"kind":"secret","name":"API_KEY",`, `{"kind":"resource","name":"box",`} {
		if !strings.Contains(string(head), want) {
			t.Errorf("no %s in %s", want, head)
		}
	}
	there, _ := openHoused(t)
	if _, err := there.eng.Sessions().Import(t.Context(), bytes.NewReader(text), engine.Import{}); err != nil {
		t.Errorf("it is not taken in: %v", err)
	}
}

// TestImportRefusesDatabases: an archive whose databases cannot be stored is refused, and nothing
// of it remains.
func TestImportRefusesDatabases(t *testing.T) {
	t.Parallel()
	h, _, _ := filledSession(t)
	text := h.export()
	bare := openShop(t, keepOnce, local.Config{})
	if _, err := bare.eng.Sessions().Import(t.Context(), bytes.NewReader(text), engine.Import{}); !errors.Is(err, perdure.Unavailable) {
		t.Errorf("an engine without a folder for databases: %v", err)
	}
	there, _ := openHoused(t)
	if _, err := there.eng.Sessions().Import(t.Context(), bytes.NewReader(text[:len(text)-1]), engine.Import{}); !errors.Is(err, perdure.Invalid) {
		t.Errorf("a file that was cut: %v", err)
	}
	if left, _ := os.ReadDir(filepath.Join(there.dir, "sql")); len(left) != 0 {
		t.Errorf("of a refused import there is %v", left)
	}
}
