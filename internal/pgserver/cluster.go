// Package pgserver runs a PostgreSQL server of our own, with the programs that the system has: for tests, measurements and
// perdure chaos, never for anybody's sessions.
//
// It may import the standard library. The one thing to know: the server listens on a socket in a folder of its own, and dies
// with the process that started it, also with one that is killed.
package pgserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// socketPath is how many bytes the path of a socket may have.
const socketPath = 107

// startLimit bounds how long a server may take to answer, recovery included.
const startLimit = time.Minute

// keeper runs the server and ends it when its standard input does: so no server outlives the tests, however they end.
// With the word "keep" the folder stays, for another start.
const keeper = `"$1" -D "$2/data" -k "$2" -c listen_addresses= -c fsync="$3" -c full_page_writes="$3" \
	-c max_connections=200 -c shared_buffers=32MB -c max_wal_size=256MB -c unix_socket_permissions=0777 >>"$2/log" 2>&1 &
server=$!
read -r word
kill -QUIT "$server"
wait "$server"
[ "$word" = keep ] || rm -rf "$2"`

// Config says what kind of cluster a test wants. The zero value is right for most.
type Config struct {
	Fsync bool // as in production; off, a commit that was answered survives the server's death and not the machine's
}

// Cluster is a server of its own, on a socket in a folder of its own. It is safe for concurrent use.
type Cluster struct {
	folder string
	fsync  string // on or off
	owner  *owner

	mu      sync.Mutex
	server  *exec.Cmd      // guarded by mu; nil while it is stopped
	life    io.WriteCloser // guarded by mu; the standard input of server
	names   int            // guarded by mu; databases made so far
	free    []string       // guarded by mu; URLs of copies of the template that nobody uses
	filled  string         // guarded by mu; the template; empty: none yet
	fillErr error          // guarded by mu; why there is none
}

// NewCluster makes a cluster and starts it. Close ends it.
func NewCluster(cfg Config) (_ *Cluster, err error) {
	initdb, err := program("initdb")
	if err != nil {
		return nil, err
	}
	who, err := findOwner()
	if err != nil {
		return nil, fmt.Errorf("find a user for the server: %w", err)
	}
	folder, err := os.MkdirTemp("", "pg") // not the folder of a test, whose path is long
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(folder))
		}
	}()
	if err := who.take(folder); err != nil {
		return nil, err
	}
	cmd := exec.Command(initdb, "-D", filepath.Join(folder, "data"), "-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C")
	cmd.Dir = folder
	who.own(cmd)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	c := &Cluster{folder: folder, owner: who, fsync: "off"}
	if cfg.Fsync {
		c.fsync = "on"
	}
	if err := c.Start(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Start starts the server and waits until it answers. One that runs is left alone.
func (c *Cluster) Start() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.server != nil {
		return nil
	}
	file, err := program("postgres")
	if err != nil {
		return err
	}
	cmd := exec.Command("/bin/sh", "-c", keeper, "keeper", file, c.folder, c.fsync)
	cmd.Dir = c.folder
	c.owner.own(cmd)
	life, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the server: %w", err)
	}
	c.server, c.life = cmd, life
	return c.answers()
}

// answers waits for the server.
func (c *Cluster) answers() error {
	ctx, stop := context.WithTimeout(context.Background(), startLimit)
	defer stop()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for {
		err := c.Exec(ctx, `SELECT 1`)
		if err == nil {
			return nil
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			log, _ := os.ReadFile(filepath.Join(c.folder, "log"))
			return fmt.Errorf("the server does not answer: %w\n%s", err, log)
		}
	}
}

// Stop kills the server at once, as a crash would. What it holds is there after Start.
func (c *Cluster) Stop() error { return c.end("keep\n") }

// Close ends the server and removes all that it holds. Closing again does nothing.
func (c *Cluster) Close() error {
	if err := c.end(""); err != nil {
		return err
	}
	return os.RemoveAll(c.folder)
}

func (c *Cluster) end(word string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.server == nil {
		return nil
	}
	_, writeErr := io.WriteString(c.life, word)
	closeErr := c.life.Close()
	_ = c.server.Wait() // how the shell ended says nothing
	c.server, c.life = nil, nil
	return errors.Join(writeErr, closeErr)
}

// URL names a database of the cluster.
func (c *Cluster) URL(database string) string {
	return "postgres://postgres@/" + database + "?host=" + c.folder + "&sslmode=disable"
}

// Socket is the file on which the server listens.
func (c *Cluster) Socket() string { return socketIn(c.folder) }

func socketIn(folder string) string { return filepath.Join(folder, ".s.PGSQL.5432") }

// Database makes a database and returns its URL. fill makes what is in it: it is asked once, and the others are copies.
// nil makes an empty one.
func (c *Cluster) Database(ctx context.Context, fill func(url string) error) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	template := "template0"
	if fill != nil {
		if err := c.fill(ctx, fill); err != nil {
			return "", fmt.Errorf("fill the template: %w", err)
		}
		template = c.filled
		if n := len(c.free); n > 0 {
			url := c.free[n-1]
			c.free = c.free[:n-1]
			return url, nil
		}
	}
	c.names++
	name := fmt.Sprintf("test_%d", c.names)
	if err := c.Exec(ctx, "CREATE DATABASE "+name+" TEMPLATE "+template); err != nil {
		return "", err
	}
	return c.URL(name), nil
}

// fill makes the template, once. c.mu is held.
func (c *Cluster) fill(ctx context.Context, fill func(url string) error) error {
	if c.filled != "" || c.fillErr != nil {
		return c.fillErr
	}
	const name = "filled"
	c.fillErr = c.Exec(ctx, "CREATE DATABASE "+name+" TEMPLATE template0")
	if c.fillErr == nil {
		c.fillErr = fill(c.URL(name))
	}
	if c.fillErr == nil {
		c.filled = name
	}
	return c.fillErr
}

// emptyAll ends whoever is still connected, and empties every table but the one in which the migrations keep their count. It looks
// after no references between tables: all of them are emptied.
const emptyAll = `SELECT COUNT(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid();
	SET session_replication_role = replica;
	DO $$ DECLARE r record; BEGIN
		FOR r IN SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'goose_db_version' LOOP
			EXECUTE format('DELETE FROM %I', r.tablename);
		END LOOP; END $$`

// Reuse takes back a copy of the template, emptied: to make and drop one takes as long as many a test.
func (c *Cluster) Reuse(ctx context.Context, url string) error {
	if _, err := ask(ctx, url, emptyAll); err != nil {
		return fmt.Errorf("empty %s: %w", url, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.free = append(c.free, url)
	return nil
}

// KillBackends ends connections to the database of a URL, as an operator would: at most so many, at random, of those whose
// application name begins with a word. It answers how many there were.
func (c *Cluster) KillBackends(ctx context.Context, url string, most int, word string) (int, error) {
	said, err := ask(ctx, url, fmt.Sprintf(`SELECT COUNT(pg_terminate_backend(pid)) FROM (SELECT pid FROM pg_stat_activity
		WHERE datname = current_database() AND starts_with(application_name, '%s') ORDER BY random() LIMIT %d) AS chosen`, word, most))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(said)
}

// Exec runs statements as the superuser.
func (c *Cluster) Exec(ctx context.Context, statements string) error {
	_, err := ask(ctx, c.URL("postgres"), statements)
	return err
}

// ask runs statements in a database and returns what they found.
func ask(ctx context.Context, url, statements string) (string, error) {
	psql, err := program("psql")
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, psql, "-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-c", statements, url)
	var said, complaint strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &complaint
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("psql: %w: %s", err, complaint.String())
	}
	return strings.TrimSpace(said.String()), nil
}
