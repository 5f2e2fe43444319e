package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/redact"
	"github.com/perdure/perdure/internal/secret"
	"github.com/perdure/perdure/internal/sessionfile"
	"github.com/perdure/perdure/internal/sessionport"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/file"
)

// The secret of the measurements.
const (
	secretName  = "api_key"
	secretValue = "bench-0123456789abcdef0123456789abcdef0123456789abcdef"
)

// secretTimes are the results of the secret measurements.
type secretTimes struct{ bareSet, set, bareGet, get, seal, open sample }

// measureSecrets measures a secret through the port of a tool. The floor is the same commit without
// the port: of bytes that were encrypted before, and for a read with its audit event and without
// decryption.
func measureSecrets(ctx context.Context, l *runner) error {
	w, err := l.world(ctx, engineRigConfig{})
	if err != nil {
		return err
	}
	defer w.close()
	home, err := local.OpenDataDir(ctx, local.DataDirConfig{Dir: w.cfg.Dir, Store: w.store, Known: redact.NewSet()})
	if err != nil {
		return err
	}
	defer home.Close()
	ours, err := w.undriven(ctx)
	if err != nil {
		return err
	}
	bare, err := w.undriven(ctx)
	if err != nil {
		return err
	}
	cfg := sessionport.Config{Store: w.store, Keys: home.Secrets.Keys, LogMask: home.Secrets.Known}
	port := sessionport.New(cfg)(ours, tool.Call{Session: ours, ID: "call_bench", Tool: "bench"}).Secrets
	var times secretTimes
	for i := range l.count(300, 5) {
		if err := w.bareSecret(ctx, home.Secrets.Keys,
			secret.Place{Session: bare, Name: secretName, Version: int64(i) + 1}, &times); err != nil {
			return err
		}
		began := time.Now()
		if err := port.SetSecret(ctx, tool.SecretWrite{Name: secretName, Value: secretValue}); err != nil {
			return err
		}
		times.set = append(times.set, time.Since(began))
		began = time.Now()
		value, err := port.Reveal(ctx, secretName)
		times.get = append(times.get, time.Since(began))
		if err != nil || value != secretValue {
			return fmt.Errorf("read a wrong secret: %w", err)
		}
	}
	l.report.latencies("floor_secret_set", times.bareSet)
	l.report.latencies("secret_set", times.set)
	l.report.ratio("secret_set", "floor_secret_set", "p50_us", "floor_p50_ratio")
	l.report.set("secret_set", "seal_p50_us", micros(times.seal.at(0.5)))
	l.report.latencies("floor_secret_get", times.bareGet)
	l.report.latencies("secret_get", times.get)
	l.report.ratio("secret_get", "floor_secret_get", "p50_us", "floor_p50_ratio")
	l.report.set("secret_get", "open_p50_us", micros(times.open.at(0.5)))
	return nil
}

// bareSecret encrypts and decrypts a version, and writes and reads it without the port.
func (w *engineRig) bareSecret(ctx context.Context, keys *secret.Keyring, at secret.Place, into *secretTimes) error {
	began := time.Now()
	sealed, err := keys.Seal(at, []byte(secretValue))
	into.seal = append(into.seal, time.Since(began))
	if err != nil {
		return err
	}
	began = time.Now()
	_, err = keys.Open(at, sealed)
	into.open = append(into.open, time.Since(began))
	if err != nil {
		return err
	}
	id, err := secret.KeyID(sealed)
	if err != nil {
		return err
	}
	began = time.Now()
	err = w.store.InTx(ctx, func(tx store.Tx) error {
		if _, err := tx.Sessions().Get(at.Session); err != nil {
			return err
		}
		return tx.Secrets().Put(store.Secret{Session: at.Session, Name: at.Name, Version: at.Version, KeyID: id,
			Sealed: sealed, Call: "call_bench"})
	})
	into.bareSet = append(into.bareSet, time.Since(began))
	if err != nil {
		return err
	}
	began = time.Now()
	err = w.store.InTx(ctx, func(tx store.Tx) error {
		if _, err := tx.Sessions().Get(at.Session); err != nil {
			return err
		}
		found, err := tx.Secrets().Get(at.Session, at.Name)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(found.Sealed)
		return tx.Journal().Append(at.Session, []perdure.Event{{
			ID: core.NewID[perdure.EventID](), At: tx.Now(), Actor: "runtime", Call: "call_bench",
			Fact: perdure.AuditRecorded{Action: perdure.AuditRead, Subject: at.Name,
				Hash: "sha256:" + hex.EncodeToString(sum[:]), Purpose: "bench"},
		}})
	})
	into.bareGet = append(into.bareGet, time.Since(began))
	return err
}

// The files of the search: small enough for the search limit of 5 MiB.
const (
	filesOfFolder = 100
	linesOfFile   = 8
	searchPattern = `needle [0-9]+`
	needleEvery   = 100 // one file of so many contains the pattern, on one line
)

// measureGrep measures grep_files over many small files: in the store, and in a folder. The floor
// has the same bytes in memory.
func measureGrep(ctx context.Context, l *runner) error {
	w, err := l.world(ctx, engineRigConfig{})
	if err != nil {
		return err
	}
	defer w.close()
	id, err := w.undriven(ctx)
	if err != nil {
		return err
	}
	files := filesToSearch(l.count(10_000, 200))
	if err := w.seedFiles(ctx, id, files); err != nil {
		return err
	}
	places := map[string]tool.Files{"grep_store": sessionfile.New(w.store, id, false)}
	if !l.onPostgres() { // a folder is the same with any store
		folder, err := l.folderOf(files)
		if err != nil {
			return err
		}
		defer folder.Close()
		places["grep_folder"] = folder
	}
	l.progressf("grep: the files are ready")
	want := len(files) / needleEvery
	var bare sample
	found := map[string]sample{}
	for range l.count(7, 1) {
		began := time.Now()
		if n := grepInMemory(files); n != want {
			return fmt.Errorf("the floor found %d lines, want %d", n, want)
		}
		bare = append(bare, time.Since(began))
		for name, place := range places {
			took, err := grepped(ctx, place, want)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			found[name] = append(found[name], took)
		}
	}
	l.report.latencies("floor_grep", bare)
	for _, name := range []string{"grep_store", "grep_folder"} {
		if places[name] != nil {
			l.report.latencies(name, found[name])
			l.report.set(name, "files", float64(len(files)))
			l.report.ratio(name, "floor_grep", "p50_us", "floor_p50_ratio")
		}
	}
	return nil
}

// filesToSearch returns files in folders of filesOfFolder.
func filesToSearch(n int) []tool.InitialFile {
	files := make([]tool.InitialFile, n)
	for i := range files {
		lines := strings.Repeat("a line of a file that somebody wrote some time ago\n", linesOfFile)
		if i%needleEvery == 0 {
			lines += fmt.Sprintf("a needle %d\n", i)
		}
		files[i] = tool.InitialFile{Path: fmt.Sprintf("/folder_%03d/file_%05d.txt", i/filesOfFolder, i), Content: lines}
	}
	return files
}

// seedFiles writes files to a session, one folder per commit.
func (w *engineRig) seedFiles(ctx context.Context, id perdure.SessionID, files []tool.InitialFile) error {
	seeds := sessionfile.New(w.store, id, true)
	for from := 0; from < len(files); from += filesOfFolder {
		err := w.store.InTx(ctx, func(tx store.Tx) error {
			for _, f := range files[from:min(from+filesOfFolder, len(files))] {
				if err := seeds.SeedIn(tx, f); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("write files: %w", err)
		}
	}
	return nil
}

// folderOf writes files to a folder of the host.
func (l *runner) folderOf(files []tool.InitialFile) (*file.Dir, error) {
	root, err := l.folder("files")
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		name := filepath.Join(root, filepath.FromSlash(f.Path))
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			return nil, fmt.Errorf("write files: %w", err)
		}
		if err := os.WriteFile(name, []byte(f.Content), 0o600); err != nil {
			return nil, fmt.Errorf("write files: %w", err)
		}
	}
	return file.OpenDir(root)
}

// grepInMemory counts the matching lines.
func grepInMemory(files []tool.InitialFile) (n int) {
	pattern := regexp.MustCompile(searchPattern)
	for _, f := range files {
		for line := range strings.Lines(f.Content) {
			if pattern.MatchString(line) {
				n++
			}
		}
	}
	return n
}

// grepped runs the tool once, and checks the number of lines.
func grepped(ctx context.Context, place tool.Files, want int) (time.Duration, error) {
	call := tool.Call{Tool: "grep_files", Args: []byte(`{"pattern":` + quoted(searchPattern) + `,"max_matches":1000}`)}
	began := time.Now()
	result := file.GrepFiles().Run(ctx, call, tool.Env{Files: place})
	took := time.Since(began)
	if n := strings.Count(fmt.Sprintf("%+v", result.Value), "needle"); result.Kind != tool.KindSuccess || n != want {
		return 0, fmt.Errorf("the search found %d lines, want %d: %s", n, want, result.Text)
	}
	return took, nil
}
