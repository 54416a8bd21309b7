package main

import (
	"github.com/tidemark-sessions/tidemark/backend/cold"
	"github.com/tidemark-sessions/tidemark/backend/files"
	"github.com/tidemark-sessions/tidemark/backend/postgres"
	"github.com/tidemark-sessions/tidemark/backend/remote"
	"github.com/tidemark-sessions/tidemark/seal"
	"github.com/tidemark-sessions/tidemark/server/serve"
)

// remains says what a purge did to a session in this store, and what may
// still hold its content.
func (a *app) remains() string {
	_, sealed := a.opened.Backend.(*seal.Backend)
	done, left := "The rows were deleted and overwritten in the database file", "its WAL file until that is written over, file-system snapshots, blocks that a disk took out of use and backups"
	switch cold.Under(a.opened.Inner).(type) {
	case *files.Backend:
		done, left = "The files were overwritten and removed", "the file system (journal, snapshots, copies on write), blocks that a disk took out of use and backups"
	case *postgres.Backend, serve.OperatorBackend:
		done, left = "The rows were deleted", "the table's pages until VACUUM has reused them, the WAL, replicas and backups"
	case *remote.Backend:
		done, left = "The server deleted it", "the disk or database of the server, its logs of changes and its backups"
	}
	if !sealed {
		return done + "; " + left + " may still hold what it said: this store is not encrypted."
	}
	return done + ", the session's wrapped data key with them; " + left + " may still hold that key: rotate (tidemark key rotate) and destroy the old key to make it useless."
}
