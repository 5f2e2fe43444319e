// Package backup copies a data directory while a server uses it, restores copies, verifies that a
// data directory or a backup is intact, and removes what no longer has an owner (R27).
//
// It may import the root, store, store/sqlite and internal/chaos.
//
// The one thing to know: a backup is a directory with a manifest, which is written last and lists
// every file with its size and SHA-256. A directory without a manifest is not a backup.
package backup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store/sqlite"
)

// The entries of a data directory beside its database.
const (
	SQLFolder   = "sql"         // databases of sessions: SESSION/NAME.db
	BlobFolder  = "blobs"       // contents by their SHA-256: a folder of its first two digits, then the whole
	RunFolder   = "runs"        // of commands; not backed up, since a run belongs to its machine
	HomeFolder  = "homes"       // of the commands of sessions: HOME and /tmp; not backed up, since programs keep caches there
	RulesFile   = "egress.json" // the egress rules: without them a restored server would allow more
	KeyringFile = "keyring"     // the keys of the secrets; backed up only on request
)

// journal is the suffix of a session database's rollback journal.
const journal = "-journal"

// unfinished is the suffix of a backup that is being written.
const unfinished = ".unfinished"

// Config says what is copied and where to. Dir and To are required.
type Config struct {
	Dir     string           // the data directory
	To      string           // the backup's directory, which must not exist yet
	WithKey bool             // copy the keyring, too: anyone with such a backup can read every secret in it
	Program string           // the version of the program, for people
	Now     func() time.Time // nil: time.Now
}

// Take makes a backup of the moment at which it starts to read, while a server may use the data
// directory. The backup gets its name when all of it is durable; a crash leaves a directory with
// the suffix ".unfinished".
//
// NotFound: there is no database, or no keyring although it was requested. Conflict: To exists, or
// an earlier attempt left an unfinished directory. Invalid: the keyring was requested, and others
// could read it at the target. Unavailable: a session was deleted meanwhile, so that the copy is
// inconsistent; nothing of it is left, and the caller can retry.
func Take(ctx context.Context, cfg Config) (Manifest, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	m := Manifest{Format: format, Version: version, Program: cfg.Program, CreatedAt: cfg.Now().UTC().Truncate(time.Second), HasKey: cfg.WithKey}
	to, err := filepath.Abs(cfg.To)
	if err == nil {
		cfg.To = to + unfinished
		err = createTarget(to, cfg)
	}
	if err != nil {
		return m, fmt.Errorf("back up %s: %w", cfg.Dir, err)
	}
	err = cfg.copyAll(ctx, &m)
	if err == nil {
		err = m.write(cfg.To)
	}
	if err == nil {
		err = syncTree(cfg.To)
	}
	if err == nil {
		err = rename(cfg.To, to)
	}
	if err != nil {
		return m, errors.Join(fmt.Errorf("back up %s: %w", cfg.Dir, err), os.RemoveAll(cfg.To))
	}
	return m, nil
}

// createTarget creates the directory of the unfinished backup.
func createTarget(to string, cfg Config) error {
	if _, err := os.Stat(filepath.Join(cfg.Dir, sqlite.DatabaseName)); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: no database in %s", perdure.NotFound, cfg.Dir)
	}
	if _, err := os.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %s exists already; choose a new directory", perdure.Conflict, to)
	}
	if cfg.WithKey {
		if _, err := os.Stat(filepath.Join(cfg.Dir, KeyringFile)); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%w: no keyring in %s; make the backup without the key", perdure.NotFound, cfg.Dir)
		}
		if err := checkPrivate(filepath.Dir(to)); err != nil {
			return err
		}
	}
	err := os.Mkdir(cfg.To, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: %s belongs to a backup that was interrupted or is still running; remove it if none is running", perdure.Conflict, cfg.To)
	}
	return err
}

// checkPrivate refuses a directory that others can read as the target of the keyring.
func checkPrivate(dir string) error {
	found, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if found.Mode().Perm()&0o004 != 0 {
		return fmt.Errorf("%w target: everyone can read %s, and the backup contains the keys of all secrets; use a directory with mode 0700", perdure.Invalid, dir)
	}
	return nil
}

// copyAll copies all files of the data directory. The database comes first: a blob is written
// before the row that refers to it, so every blob that the copied rows refer to exists by now.
func (c Config) copyAll(ctx context.Context, m *Manifest) error {
	database := filepath.Join(c.To, sqlite.DatabaseName)
	if err := sqlite.Copy(ctx, filepath.Join(c.Dir, sqlite.DatabaseName), database); err != nil {
		return err
	}
	stored, _, err := sqlite.Versions(ctx, database)
	if err != nil {
		return err
	}
	m.Schema = stored
	if err := m.add(c.To, sqlite.DatabaseName); err != nil {
		return err
	}
	if err := c.eachFile(ctx, SQLFolder, func(name string) error { return c.sessionDatabase(ctx, m, name) }); err != nil {
		return err
	}
	if err := c.eachFile(ctx, BlobFolder, func(name string) error {
		if !isBlob(name) {
			return nil // still being written
		}
		return c.addCopied(m, name, copyFile(filepath.Join(c.Dir, name), filepath.Join(c.To, name)))
	}); err != nil {
		return err
	}
	if err := c.checkBlobs(ctx, database); err != nil {
		return err
	}
	if err := c.copyRules(m); err != nil || !c.WithKey {
		return err
	}
	if err := copyFile(filepath.Join(c.Dir, KeyringFile), filepath.Join(c.To, KeyringFile)); err != nil {
		return err
	}
	return m.add(c.To, KeyringFile)
}

// copyRules copies the egress rules, if there are any.
func (c Config) copyRules(m *Manifest) error {
	err := copyFile(filepath.Join(c.Dir, RulesFile), filepath.Join(c.To, RulesFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return m.add(c.To, RulesFile)
}

// sessionDatabase copies a session's database. A damaged one is copied unchanged, with its journal,
// and listed in the manifest as damaged, so that it does not prevent the rest of the backup.
func (c Config) sessionDatabase(ctx context.Context, m *Manifest, name string) error {
	if !strings.HasSuffix(name, ".db") {
		return nil // the copy of a database includes its journal
	}
	from, to := filepath.Join(c.Dir, name), filepath.Join(c.To, name)
	err := sqlite.CopySession(ctx, from, to)
	if !sqlite.Damaged(err) {
		return c.addCopied(m, name, err)
	}
	if err := c.addCopied(m, name, copyFile(from, to)); err != nil {
		return err
	}
	m.Damaged = append(m.Damaged, filepath.ToSlash(name))
	return c.addCopied(m, name+journal, copyFile(from+journal, to+journal))
}

// checkBlobs checks that every blob that the copied database refers to was copied. A blob that the
// data directory also lacks, and still refers to, was lost before; Verify reports that.
func (c Config) checkBlobs(ctx context.Context, database string) error {
	copied, err := sqlite.Blobs(ctx, database)
	if err != nil {
		return err
	}
	for sum := range copied {
		if _, err := os.Stat(filepath.Join(c.To, blobFile(sum))); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return err
		}
		delete(copied, sum)
	}
	if len(copied) == 0 {
		return nil
	}
	now, err := sqlite.Blobs(ctx, filepath.Join(c.Dir, sqlite.DatabaseName))
	if err != nil {
		return err
	}
	for sum := range copied {
		if _, err := os.Stat(filepath.Join(c.Dir, blobFile(sum))); now[sum] && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		return fmt.Errorf("%w: data was deleted during the backup; run it again (blob %s no longer exists)", perdure.Unavailable, sum)
	}
	return nil
}

// addCopied adds a file to the manifest. A file that disappeared while it was copied belonged to a
// deleted session.
func (c Config) addCopied(m *Manifest, name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, perdure.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return m.add(c.To, name)
}

// eachFile calls fn for each file below a folder of the data directory, in order, with its path in
// the data directory. It creates the folders in the backup.
func (c Config) eachFile(ctx context.Context, folder string, fn func(name string) error) error {
	return filepath.WalkDir(filepath.Join(c.Dir, folder), func(path string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // the folder is missing, or was removed meanwhile
		case err != nil:
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		name, err := filepath.Rel(c.Dir, path)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return os.Mkdir(filepath.Join(c.To, name), 0o700)
		}
		if !entry.Type().IsRegular() {
			return nil // not one of ours
		}
		return fn(name)
	})
}

// blobFile returns the path of a blob in a data directory.
func blobFile(sum string) string { return filepath.Join(BlobFolder, sum[:2], sum) }

// isBlob reports whether a path has the form of a blob's path.
func isBlob(name string) bool {
	parts := strings.Split(filepath.ToSlash(name), "/")
	if len(parts) != 3 || len(parts[2]) != 2*sha256.Size || parts[1] != parts[2][:2] {
		return false
	}
	_, err := hex.DecodeString(parts[2])
	return err == nil && strings.ToLower(parts[2]) == parts[2]
}

// copyFile copies a file to a new file, and syncs it.
func copyFile(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // read only
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err == nil {
		err = out.Sync()
	}
	return errors.Join(err, out.Close())
}

// syncTree makes the entries of all directories of a tree durable.
func syncTree(dir string) error {
	var folders []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			folders = append(folders, path)
		}
		return err
	})
	for _, folder := range slices.Backward(folders) {
		err = errors.Join(err, syncFolder(folder))
	}
	return err
}

// rename renames a directory durably.
func rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(to))
}

func syncFolder(dir string) error {
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
