package session

import (
	"context"
	_ "embed" // the texts that the model reads
	"errors"
	"fmt"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// SQLCapability is the capability of sql_query, sql_execute and sql_schema.
const SQLCapability = "session_sql"

// sqlClass is the concurrency class of the tools: calls of one step run one after another, in the
// model's order (SQ1).
const sqlClass = "session_sql"

// The names of the tools.
const (
	sqlQueryName   = "sql_query"
	sqlExecuteName = "sql_execute"
	sqlSchemaName  = "sql_schema"
)

//go:embed sql_query.md
var sqlQueryText string

//go:embed sql_execute.md
var sqlExecuteText string

//go:embed sql_schema.md
var sqlSchemaText string

type sqlIn struct {
	SQL      string `json:"sql" minLength:"1" jsonschema:"One SQL statement of SQLite"`
	Args     []any  `json:"args,omitempty" jsonschema:"Values for the ? placeholders: strings, numbers, true, false, null"`
	Database string `json:"database,omitempty" pattern:"^[A-Za-z0-9_-]{1,64}$" default:"main" jsonschema:"Name of the database"`
}

type sqlSchemaIn struct {
	Database string `json:"database,omitempty" pattern:"^[A-Za-z0-9_-]{1,64}$" default:"main" jsonschema:"Name of the database"`
}

type sqlSchemaOut struct {
	Databases []tool.SQLDatabase `json:"databases"`
	Tables    []tool.SQLTable    `json:"tables" jsonschema:"The tables of the requested database"`
}

// SQLTools returns the tools for a session's own databases, in the order in which they are listed
// to models.
func SQLTools() []tool.Tool { return []tool.Tool{SQLQuery(), SQLExecute(), SQLSchema()} }

// SQLQuery returns the tool that queries a database of the session.
func SQLQuery() tool.Tool {
	yes := true
	return tool.New(tool.Spec{
		Name:        sqlQueryName,
		DisplayName: "SQL Query",
		Narration:   tool.Narration{Started: "Querying the database[ {database}]: {sql}", Completed: "Queried the database[ {database}]: {sql}", Failed: "Could not query the database[ {database}]"},
		Description: strings.TrimSpace(sqlQueryText),
		Class:       perdure.Pure,
		SessionOnly: true,
		Concurrency: sqlClass,
		NeedsEnv:    true,
		Hints:       tool.Hints{ReadOnly: &yes, Idempotent: &yes, CapabilityID: SQLCapability},
	}, func(ctx context.Context, in sqlIn, env tool.Env) (tool.SQLRows, error) {
		if env.SQL == nil {
			return tool.SQLRows{}, noSQL(sqlQueryName)
		}
		found, err := env.SQL.Query(ctx, in.statement())
		return found, sqlError("query", err)
	})
}

// SQLExecute returns the tool that changes a database of the session. After a crash its effect
// cannot be determined, because a statement may have another effect the second time.
func SQLExecute() tool.Tool {
	return tool.New(tool.Spec{
		Name:        sqlExecuteName,
		DisplayName: "SQL Execute",
		Narration:   tool.Narration{Started: "Changing the database[ {database}]: {sql}", Completed: "Changed the database[ {database}]: {sql}", Failed: "Could not change the database[ {database}]"},
		Description: strings.TrimSpace(sqlExecuteText),
		Class:       perdure.AtMostOnce,
		SessionOnly: true,
		Concurrency: sqlClass,
		NeedsEnv:    true,
		Hints:       tool.Hints{CapabilityID: SQLCapability},
	}, func(ctx context.Context, in sqlIn, env tool.Env) (tool.SQLResult, error) {
		if env.SQL == nil {
			return tool.SQLResult{}, noSQL(sqlExecuteName)
		}
		done, err := env.SQL.Execute(ctx, in.statement())
		return done, sqlError("execute", err)
	})
}

// SQLSchema returns the tool that describes the databases of the session.
func SQLSchema() tool.Tool {
	yes := true
	return tool.New(tool.Spec{
		Name:        sqlSchemaName,
		DisplayName: "SQL Schema",
		Narration:   tool.Narration{Started: "Reading the schema of the database[ {database}]", Completed: "Read the schema of the database[ {database}]", Failed: "Could not read the schema of the database[ {database}]"},
		Description: strings.TrimSpace(sqlSchemaText),
		Class:       perdure.Pure,
		SessionOnly: true,
		Concurrency: sqlClass,
		NeedsEnv:    true,
		Hints:       tool.Hints{ReadOnly: &yes, Idempotent: &yes, CapabilityID: SQLCapability},
	}, func(ctx context.Context, in sqlSchemaIn, env tool.Env) (sqlSchemaOut, error) {
		if env.SQL == nil {
			return sqlSchemaOut{}, noSQL(sqlSchemaName)
		}
		databases, err := env.SQL.Databases(ctx)
		if err != nil {
			return sqlSchemaOut{}, sqlError("list databases", err)
		}
		tables, err := env.SQL.Schema(ctx, in.Database)
		if err != nil {
			return sqlSchemaOut{}, sqlError("read a schema", err)
		}
		return sqlSchemaOut{Databases: append([]tool.SQLDatabase{}, databases...), Tables: append([]tool.SQLTable{}, tables...)}, nil
	})
}

func (in sqlIn) statement() tool.SQLStatement {
	return tool.SQLStatement{Database: in.Database, Text: in.SQL, Args: in.Args}
}

// noSQL is the tool error for a session without databases (EN2).
func noSQL(name string) error {
	return tool.Errorf("%s", tool.Missing("Session SQL store", name+" requires the session's own databases.").Text)
}

// sqlError returns a tool error if the model can correct the error; any other error is internal.
func sqlError(step string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, perdure.Invalid) || errors.Is(err, perdure.Limit):
		return tool.Errorf("%s", err.Error())
	}
	return fmt.Errorf("%s: %w", step, err)
}
