package backup

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store/sqlite"
)

const (
	format       = sqlite.BackupFormat
	version      = 1
	manifestFile = sqlite.BackupManifest
	maxManifest  = 256 << 20 // bytes
)

// Manifest describes a backup.
type Manifest struct {
	Format    string    `json:"format"`
	Version   int       `json:"version"`
	Program   string    `json:"program,omitempty"` // the version that wrote it
	Schema    int64     `json:"schema"`            // of the database
	CreatedAt time.Time `json:"created_at"`        // when the copy was started
	HasKey    bool      `json:"has_key"`           // the backup contains the keyring
	Files     []File    `json:"files"`
	// Paths of session databases that were damaged already, copied unchanged.
	Damaged []string `json:"damaged,omitempty"`
}

// File is one file of a backup.
type File struct {
	Path      string `json:"path"` // in the backup, with slashes
	SizeBytes int64  `json:"size_bytes"`
	SHA256    string `json:"sha256"`
}

// SizeBytes returns the total size of the files.
func (m Manifest) SizeBytes() (n int64) {
	for _, f := range m.Files {
		n += f.SizeBytes
	}
	return n
}

// add adds a file of the backup's directory to the manifest.
func (m *Manifest) add(dir, name string) error {
	f, err := measure(dir, name)
	m.Files = append(m.Files, f)
	return err
}

// measure reads a whole file and returns its size and hash.
func measure(dir, name string) (f File, err error) {
	file, err := os.Open(filepath.Join(dir, filepath.FromSlash(name)))
	if err != nil {
		return f, err
	}
	defer func() { _ = file.Close() }() // read only
	sum := sha256.New()
	n, err := io.Copy(sum, file)
	return File{Path: filepath.ToSlash(name), SizeBytes: n, SHA256: hex.EncodeToString(sum.Sum(nil))}, err
}

// write writes the manifest, which makes the directory a backup.
func (m Manifest) write(dir string) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	file, err := os.OpenFile(filepath.Join(dir, manifestFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(append(text, '\n'))
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// Read reads the manifest of a backup. NotFound: the directory is not a backup. Invalid: the
// manifest cannot be parsed, or a later version wrote it.
func Read(dir string) (Manifest, error) {
	var m Manifest
	file, err := os.Open(filepath.Join(dir, manifestFile))
	if errors.Is(err, fs.ErrNotExist) {
		return m, fmt.Errorf("%w: %s has no %s, so it is not a backup, or not a finished one", perdure.NotFound, dir, manifestFile)
	}
	if err != nil {
		return m, fmt.Errorf("read %s: %w", dir, err)
	}
	defer func() { _ = file.Close() }() // read only
	text, err := io.ReadAll(io.LimitReader(file, maxManifest))
	if err == nil {
		err = perdure.DecodeKnownJSON(text, &m)
	}
	switch {
	case err != nil:
		return m, fmt.Errorf("%w manifest in %s: %w", perdure.Invalid, dir, err)
	case m.Format != format:
		return m, fmt.Errorf("%w manifest in %s: not the manifest of a backup", perdure.Invalid, dir)
	case m.Version != version:
		return m, fmt.Errorf("%w manifest in %s: version %d, but this program reads version %d; use the version that wrote it, or a later one", perdure.Invalid, dir, m.Version, version)
	}
	for _, f := range m.Files {
		if !fs.ValidPath(f.Path) || !filepath.IsLocal(filepath.FromSlash(f.Path)) {
			return m, fmt.Errorf("%w manifest in %s: %q is not a path inside the backup", perdure.Invalid, dir, f.Path)
		}
	}
	return m, nil
}

// compare returns the differences between a backup and its manifest.
func (m Manifest) compare(dir string) (wrong []string, err error) {
	listed := map[string]bool{manifestFile: true}
	for _, want := range m.Files {
		listed[want.Path] = true
		got, err := measure(dir, want.Path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			wrong = append(wrong, want.Path+" is missing")
		case err != nil:
			return wrong, err
		case got != want:
			wrong = append(wrong, fmt.Sprintf("%s was changed: it has %d bytes with SHA-256 %s, the manifest lists %d bytes with %s", want.Path, got.SizeBytes, got.SHA256, want.SizeBytes, want.SHA256))
		}
	}
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err == nil && !listed[filepath.ToSlash(name)] {
			wrong = append(wrong, filepath.ToSlash(name)+" is not in the manifest")
		}
		return err
	})
	return wrong, err
}
