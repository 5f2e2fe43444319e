// Package pgserver runs a PostgreSQL server with the programs installed on the system: for tests,
// benchmarks and perdure chaos, never for real sessions.
//
// It may import the standard library. The one thing to know: the server listens on a socket in a
// temporary folder, and it ends with the process that started it, even if that process is killed.
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

// socketPath is the largest length of a socket's path in bytes.
const socketPath = 107

// startLimit is how long a server may take to answer, including recovery.
const startLimit = time.Minute

// serverScript is a shell script that runs the server and kills it when the script's standard input
// ends, so that no server outlives the process that started it. If the input is "keep", the folder
// stays for another start.
const serverScript = `"$1" -D "$2/data" -k "$2" -c listen_addresses= -c fsync="$3" -c full_page_writes="$3" \
	-c max_connections=200 -c shared_buffers=32MB -c max_wal_size=256MB -c unix_socket_permissions=0777 >>"$2/log" 2>&1 &
server=$!
read -r word
kill -QUIT "$server"
wait "$server"
[ "$word" = keep ] || rm -rf "$2"`

// Config configures a cluster. The zero value is right for most tests.
type Config struct {
	// Fsync syncs as in production. Without it a confirmed commit survives a crash of the server,
	// but not of the machine.
	Fsync bool
}

// Cluster is a server on a socket in a folder of its own. Safe for concurrent use.
type Cluster struct {
	folder string
	fsync  string // "on" or "off"
	owner  *owner

	mu         sync.Mutex
	server     *exec.Cmd      // guarded by mu; nil while it is stopped
	stdin      io.WriteCloser // guarded by mu; the standard input of server, which keeps it running
	nDatabases int            // guarded by mu; number of databases created
	free       []string       // guarded by mu; URLs of unused copies of the template
	filled     string         // guarded by mu; name of the template; empty: none yet
	fillErr    error          // guarded by mu; why there is no template
}

// NewCluster creates a cluster and starts it. Close ends it.
func NewCluster(cfg Config) (_ *Cluster, err error) {
	initdb, err := program("initdb")
	if err != nil {
		return nil, err
	}
	owner, err := findOwner()
	if err != nil {
		return nil, fmt.Errorf("find a user for the server: %w", err)
	}
	folder, err := os.MkdirTemp("", "pg") // not the folder of a test, which has a long path
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(folder))
		}
	}()
	if err := owner.prepareFolder(folder); err != nil {
		return nil, err
	}
	cmd := exec.Command(initdb, "-D", filepath.Join(folder, "data"), "-U", "postgres", "-A", "trust", "--no-sync",
		"-E", "UTF8", "--locale=C")
	cmd.Dir = folder
	owner.own(cmd)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	c := &Cluster{folder: folder, owner: owner, fsync: "off"}
	if cfg.Fsync {
		c.fsync = "on"
	}
	if err := c.Start(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Start starts the server and waits until it answers. It does nothing if the server runs.
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
	cmd := exec.Command("/bin/sh", "-c", serverScript, "pgserver", file, c.folder, c.fsync)
	cmd.Dir = c.folder
	c.owner.own(cmd)
	life, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the server: %w", err)
	}
	c.server, c.stdin = cmd, life
	return c.answers()
}

// answers waits until the server answers.
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

// Stop kills the server at once, as a crash would. Its data is there after Start.
func (c *Cluster) Stop() error { return c.end("keep\n") }

// Close ends the server and removes its data. Closing again does nothing.
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
	_, writeErr := io.WriteString(c.stdin, word)
	closeErr := c.stdin.Close()
	_ = c.server.Wait() // the exit code of the shell means nothing
	c.server, c.stdin = nil, nil
	return errors.Join(writeErr, closeErr)
}

// URL returns the URL of a database of the cluster.
func (c *Cluster) URL(database string) string {
	return "postgres://postgres@/" + database + "?host=" + c.folder + "&sslmode=disable"
}

// Socket returns the path of the socket on which the server listens.
func (c *Cluster) Socket() string { return socketIn(c.folder) }

func socketIn(folder string) string { return filepath.Join(folder, ".s.PGSQL.5432") }

// Database creates a database and returns its URL. fill sets up its contents: it is called once,
// and the databases are copies of the result. nil creates an empty database.
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
	c.nDatabases++
	name := fmt.Sprintf("test_%d", c.nDatabases)
	if err := c.Exec(ctx, "CREATE DATABASE "+name+" TEMPLATE "+template); err != nil {
		return "", err
	}
	return c.URL(name), nil
}

// fill creates the template, once. The caller holds c.mu.
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

// emptyAll ends all other connections, and empties every table except the one in which the
// migrations record their version. It disables foreign keys, because all tables are emptied.
const emptyAll = `SELECT COUNT(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid();
	SET session_replication_role = replica;
	DO $$ DECLARE r record; BEGIN
		FOR r IN SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'goose_db_version' LOOP
			EXECUTE format('DELETE FROM %I', r.tablename);
		END LOOP; END $$`

// Reuse takes back a copy of the template and empties it, which is faster than to drop and create
// one.
func (c *Cluster) Reuse(ctx context.Context, url string) error {
	if _, err := ask(ctx, url, emptyAll); err != nil {
		return fmt.Errorf("empty %s: %w", url, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.free = append(c.free, url)
	return nil
}

// KillBackends ends up to limit connections to the database of a URL, as an operator would: at
// random, among those whose application name starts with prefix. It returns how many it ended.
func (c *Cluster) KillBackends(ctx context.Context, url string, limit int, prefix string) (int, error) {
	out, err := ask(ctx, url, fmt.Sprintf(`SELECT COUNT(pg_terminate_backend(pid)) FROM (SELECT pid FROM pg_stat_activity
		WHERE datname = current_database() AND starts_with(application_name, '%s') ORDER BY random() LIMIT %d) AS chosen`, prefix, limit))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(out)
}

// AdvisoryLocks returns how many shared advisory locks the connections to the database of a URL
// have; one that several have counts once.
func (c *Cluster) AdvisoryLocks(ctx context.Context, url string) (int, error) {
	out, err := ask(ctx, url, `SELECT COUNT(DISTINCT (classid, objid)) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ShareLock'
		AND granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(out)
}

// KillBackendsOf ends all connections of a role.
func (c *Cluster) KillBackendsOf(ctx context.Context, role string) error {
	return c.Exec(ctx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '"+role+"'")
}

// Exec runs statements as the superuser.
func (c *Cluster) Exec(ctx context.Context, statements string) error {
	_, err := ask(ctx, c.URL("postgres"), statements)
	return err
}

// ask runs statements in a database and returns their output.
func ask(ctx context.Context, url, statements string) (string, error) {
	psql, err := program("psql")
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, psql, "-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-c", statements, url)
	var out, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("psql: %w: %s", err, stderr.String())
	}
	return strings.TrimSpace(out.String()), nil
}
