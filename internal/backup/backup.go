// Package backup copies a data directory while somebody works in it, puts copies back, says whether what is there is whole,
// and removes what belongs to nobody any more (R27).
//
// It may import the root, store, store/sqlite and internal/chaos. The one thing to know: a backup is a folder with a
// manifest, which is written last and names every file by its size and SHA-256. A folder without one is not a backup, and
// nobody takes it for one.
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

// What a data directory has beside its database.
const (
	SQLFolder   = "sql"         // databases of sessions: SESSION/NAME.db
	BlobFolder  = "blobs"       // contents by their SHA-256: the first two digits, then the whole
	RunFolder   = "runs"        // of commands; not in a backup, since a command is of its machine
	RulesFile   = "egress.json" // what may leave: without it a restored server would let out more
	KeyringFile = "keyring"     // what secrets are sealed with; in a backup only when it is asked for
)

// journal ends the name of what is to be rolled back in a database of a session.
const journal = "-journal"

// unfinished ends the name of a folder that is being written.
const unfinished = ".unfinished"

// Config says what is copied where. Dir and To are required.
type Config struct {
	Dir     string           // the data directory
	To      string           // a folder that is not there yet
	WithKey bool             // the keyring too: whoever has such a backup can read every secret in it
	Program string           // the version that writes it, for people
	Now     func() time.Time // nil: time.Now
}

// Take makes a backup, as of the moment at which it begins to read, beside whoever holds the data directory. Nothing has its
// name before all of it is on the disk; what a crash leaves is named so, with ".unfinished" after it.
//
// NotFound: there is no database, or no keyring, which was asked for. Conflict: To is there, or what a former try left
// beside it. Invalid: the keyring was asked for, and others could read it there. Unavailable: a session was deleted
// meanwhile, so that what is copied does not fit together; nothing is left of it, and it is done again.
func Take(ctx context.Context, cfg Config) (Manifest, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	m := Manifest{Format: format, Version: version, Program: cfg.Program, CreatedAt: cfg.Now().UTC().Truncate(time.Second), HasKey: cfg.WithKey}
	to, err := filepath.Abs(cfg.To)
	if err == nil {
		cfg.To = to + unfinished
		err = begin(to, cfg)
	}
	if err != nil {
		return m, fmt.Errorf("back up %s: %w", cfg.Dir, err)
	}
	err = cfg.fill(ctx, &m)
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

// begin makes the folder that is written to.
func begin(to string, cfg Config) error {
	if _, err := os.Stat(filepath.Join(cfg.Dir, sqlite.DatabaseName)); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: there is no database in %s", perdure.NotFound, cfg.Dir)
	}
	if _, err := os.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %s is there already: name a folder that is not", perdure.Conflict, to)
	}
	if cfg.WithKey {
		if _, err := os.Stat(filepath.Join(cfg.Dir, KeyringFile)); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%w: there is no keyring in %s; leave --with-key away", perdure.NotFound, cfg.Dir)
		}
		if err := private(filepath.Dir(to)); err != nil {
			return err
		}
	}
	err := os.Mkdir(cfg.To, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: %s was left by a backup that did not come to its end, or is being written: remove it when nobody writes it", perdure.Conflict, cfg.To)
	}
	return err
}

// private refuses a folder that others can read, for what opens every secret.
func private(dir string) error {
	found, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if found.Mode().Perm()&0o004 != 0 {
		return fmt.Errorf("%w target: everybody can read %s, and the backup would have the key to all secrets: use a folder of mode 0700", perdure.Invalid, dir)
	}
	return nil
}

// fill copies all that belongs to the data directory. The database comes first: a blob is there before the row that names
// it, and so it is there still.
func (c Config) fill(ctx context.Context, m *Manifest) error {
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
			return nil // one that is being written
		}
		return c.copied(m, name, copyFile(filepath.Join(c.Dir, name), filepath.Join(c.To, name)))
	}); err != nil {
		return err
	}
	if err := c.blobsThere(ctx, database); err != nil {
		return err
	}
	if err := c.rules(m); err != nil || !c.WithKey {
		return err
	}
	if err := copyFile(filepath.Join(c.Dir, KeyringFile), filepath.Join(c.To, KeyringFile)); err != nil {
		return err
	}
	return m.add(c.To, KeyringFile)
}

// rules copies what may leave, if anybody said anything of it.
func (c Config) rules(m *Manifest) error {
	err := copyFile(filepath.Join(c.Dir, RulesFile), filepath.Join(c.To, RulesFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return m.add(c.To, RulesFile)
}

// sessionDatabase copies a database of a session. A damaged one is copied as it is, with its journal, and the manifest says
// so: it keeps nobody from the rest.
func (c Config) sessionDatabase(ctx context.Context, m *Manifest, name string) error {
	if !strings.HasSuffix(name, ".db") {
		return nil // the journal of a database is in the copy of it
	}
	from, to := filepath.Join(c.Dir, name), filepath.Join(c.To, name)
	err := sqlite.CopySession(ctx, from, to)
	if !sqlite.Damaged(err) {
		return c.copied(m, name, err)
	}
	if err := c.copied(m, name, copyFile(from, to)); err != nil {
		return err
	}
	m.Damaged = append(m.Damaged, filepath.ToSlash(name))
	return c.copied(m, name+journal, copyFile(from+journal, to+journal))
}

// blobsThere looks whether the copied database names a blob that was not copied. One that the data directory lacks, too, and
// still names, was lost there before, and is Verify's to tell of.
func (c Config) blobsThere(ctx context.Context, database string) error {
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
		return fmt.Errorf("%w: something was deleted meanwhile: do it again (the blob %s is not there any more)", perdure.Unavailable, sum)
	}
	return nil
}

// copied adds a file to the manifest. One that went while it was copied belonged to a session that was deleted since.
func (c Config) copied(m *Manifest, name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, perdure.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return m.add(c.To, name)
}

// eachFile calls fn with the files below a folder of the data directory, in order, by their paths in it. Their folders are
// made in the backup.
func (c Config) eachFile(ctx context.Context, folder string, fn func(name string) error) error {
	return filepath.WalkDir(filepath.Join(c.Dir, folder), func(path string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // there is none, or it went
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
			return nil // nothing of ours
		}
		return fn(name)
	})
}

// blobFile is where a blob stands in a data directory.
func blobFile(sum string) string { return filepath.Join(BlobFolder, sum[:2], sum) }

// isBlob reports whether a path is that of a blob, by its name alone.
func isBlob(name string) bool {
	parts := strings.Split(filepath.ToSlash(name), "/")
	if len(parts) != 3 || len(parts[2]) != 2*sha256.Size || parts[1] != parts[2][:2] {
		return false
	}
	_, err := hex.DecodeString(parts[2])
	return err == nil && strings.ToLower(parts[2]) == parts[2]
}

// copyFile copies a file to one that is not there, and syncs it.
func copyFile(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // it was only read
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

// syncTree makes the names in all folders of a tree durable.
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

// rename moves a folder to a name that is free, durably.
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
