package first

// tools is the array of tools/list. Schemas keep to the subset that every host takes: object, properties, one type each,
// items, enum, required, description. The gateway checks the arguments.
const tools = `[
 {
  "name": "action_cancel",
  "title": "Cancel action",
  "description": "Call back an earlier action of this session: what was not sent is dropped, what was sent is stopped as far as it can be, the remote job of an accepted one is asked to stop. The answer says what is known; it may have taken effect all the same.",
  "inputSchema": {
   "type": "object",
   "properties": {
    "action": {
     "type": "string",
     "description": "The id, act_ and 26 characters."
    }
   },
   "required": [
    "action"
   ]
  },
  "annotations": {
   "readOnlyHint": false,
   "idempotentHint": false,
   "destructiveHint": true,
   "openWorldHint": true
  }
 },
 {
  "name": "action_status",
  "title": "Action status",
  "description": "Look up an earlier action of this session by its id: pending, running, or done with its result. Of an accepted one, the remote job is asked for.",
  "inputSchema": {
   "type": "object",
   "properties": {
    "action": {
     "type": "string",
     "description": "The id, act_ and 26 characters."
    },
    "waitSeconds": {
     "type": "integer",
     "description": "Wait up to this long for the end of the action: 0 to 40."
    },
    "cursor": {
     "type": "string",
     "description": "To read on: what an answer named as its cursor. Of a running action 0 at first, to read along what it puts out."
    },
    "outputFile": {
     "type": "string",
     "description": "Path of a new local file to write the body of an ended action to, for long ones."
    }
   },
   "required": [
    "action"
   ]
  },
  "annotations": {
   "readOnlyHint": true,
   "idempotentHint": true,
   "destructiveHint": false,
   "openWorldHint": false
  }
 },
 {
  "name": "http_request",
  "title": "HTTP request",
  "description": "Send one HTTP request through the gateway, which adds the credential. Give url, or target and path. Redirects are not followed. Answers status, headers and body.",
  "inputSchema": {
   "type": "object",
   "properties": {
    "url": {
     "type": "string",
     "description": "Full https URL. Alternative to target and path."
    },
    "target": {
     "type": "string",
     "description": "Name of an http target of list_targets; needs path. Its own credential is used."
    },
    "path": {
     "type": "string",
     "description": "Path on the target, starting with a slash, without a query."
    },
    "method": {
     "type": "string",
     "description": "HTTP method; GET if absent."
    },
    "query": {
     "type": "object",
     "properties": {},
     "description": "Query parameters: an object whose values are strings."
    },
    "headers": {
     "type": "object",
     "properties": {},
     "description": "Request headers: an object whose values are strings. Authorization is the gateway's to set."
    },
    "body": {
     "type": "string",
     "description": "Request body, sent as given."
    },
    "bodyFile": {
     "type": "string",
     "description": "Path of a local file whose bytes are the request body, in body's place."
    },
    "outputFile": {
     "type": "string",
     "description": "Path of a new local file to write the answer's body to, for long ones."
    },
    "credential": {
     "type": "string",
     "description": "Name of the credential, only where a url fits several."
    },
    "idempotencyKey": {
     "type": "string",
     "description": "Your own unique key for this write: the same key never sends it twice."
    },
    "reason": {
     "type": "string",
     "description": "Why you want this, in your own words, for the operator who may be asked. It proves nothing."
    }
   }
  },
  "annotations": {
   "readOnlyHint": false,
   "idempotentHint": false,
   "destructiveHint": true,
   "openWorldHint": true
  }
 },
 {
  "name": "job_start",
  "title": "Start SSH job",
  "description": "Start a command on an SSH host that outlives this session. Answers at once with a job; ask action_status for its exit status and output, end it with action_cancel.",
  "inputSchema": {
   "type": "object",
   "properties": {
    "target": {
     "type": "string",
     "description": "Name of an ssh target of list_targets."
    },
    "argv": {
     "type": "array",
     "items": {
      "type": "string"
     },
     "description": "Program and arguments, passed on exactly."
    },
    "stdin": {
     "type": "string",
     "description": "Standard input of the command."
    },
    "reason": {
     "type": "string",
     "description": "Why you want this, in your own words, for the operator who may be asked. It proves nothing."
    }
   },
   "required": [
    "target",
    "argv"
   ]
  },
  "annotations": {
   "readOnlyHint": false,
   "idempotentHint": false,
   "destructiveHint": true,
   "openWorldHint": true
  }
 },
 {
  "name": "list_targets",
  "title": "List targets",
  "description": "List the API origins and SSH hosts you may ask to act on, with the requests their rules allow.",
  "inputSchema": {
   "type": "object",
   "properties": {}
  },
  "annotations": {
   "readOnlyHint": true,
   "idempotentHint": true,
   "destructiveHint": false,
   "openWorldHint": false
  }
 },
 {
  "name": "request_access",
  "title": "Request access",
  "description": "Ask the operator for a grant of a target for this session, before a call needs it or after the operator has denied this session. Nothing is sent to the target. The answer is the grant; calls of its tools that the target's rules allow then run without another question, unless the target's confirm mode asks for each use. A target that does not exist is asked for too: the answer comes once the operator has added it, and gives no grant yet. Never ask anybody for a password, key or token.",
  "inputSchema": {
   "type": "object",
   "properties": {
    "target": {
     "type": "string",
     "description": "Name of a target of list_targets, or what the operator would call a new one: a-z, 0-9, dot, dash, underscore."
    },
    "reason": {
     "type": "string",
     "description": "Why this is wanted: a sentence in your own words that the operator reads beside the request."
    }
   },
   "required": [
    "target",
    "reason"
   ]
  },
  "annotations": {
   "readOnlyHint": false,
   "idempotentHint": false,
   "destructiveHint": false,
   "openWorldHint": false
  }
 },
 {
  "name": "session_status",
  "title": "Session status",
  "description": "Tell which run and epoch this session is, whether the vault is ready, and which grants it holds.",
  "inputSchema": {
   "type": "object",
   "properties": {}
  },
  "annotations": {
   "readOnlyHint": true,
   "idempotentHint": true,
   "destructiveHint": false,
   "openWorldHint": false
  }
 },
 {
  "name": "ssh_download",
  "title": "Download file",
  "description": "Read a file from an SSH host, from a folder its rules allow, into a new local file.",
  "inputSchema": {
   "type": "object",
   "properties": {
    "target": {
     "type": "string",
     "description": "Name of an ssh target of list_targets."
    },
    "path": {
     "type": "string",
     "description": "Absolute path on the host."
    },
    "outputFile": {
     "type": "string",
     "description": "Path of a new local file."
    },
    "reason": {
     "type": "string",
     "description": "Why you want this, in your own words, for the operator who may be asked. It proves nothing."
    }
   },
   "required": [
    "target",
    "path",
    "outputFile"
   ]
  },
  "annotations": {
   "readOnlyHint": false,
   "idempotentHint": false,
   "destructiveHint": true,
   "openWorldHint": true
  }
 },
 {
  "name": "ssh_exec",
  "title": "SSH command",
  "description": "Run one command on an SSH host through the gateway, which logs in. Answers exit status, stdout and stderr.",
  "inputSchema": {
   "type": "object",
   "properties": {
    "target": {
     "type": "string",
     "description": "Name of an ssh target of list_targets."
    },
    "argv": {
     "type": "array",
     "items": {
      "type": "string"
     },
     "description": "Program and arguments, passed on exactly. Either argv or shell."
    },
    "shell": {
     "type": "string",
     "description": "A line for the host's login shell, where the host allows it. Always asks the operator."
    },
    "stdin": {
     "type": "string",
     "description": "Standard input of the command."
    },
    "timeoutSeconds": {
     "type": "integer",
     "description": "Limit for connecting and running, in seconds."
    },
    "reason": {
     "type": "string",
     "description": "Why you want this, in your own words, for the operator who may be asked. It proves nothing."
    }
   },
   "required": [
    "target"
   ]
  },
  "annotations": {
   "readOnlyHint": false,
   "idempotentHint": false,
   "destructiveHint": true,
   "openWorldHint": true
  }
 },
 {
  "name": "ssh_upload",
  "title": "Upload file",
  "description": "Write a local file to an SSH host, in a folder its rules allow. What lies there is replaced whole, or stays as it was.",
  "inputSchema": {
   "type": "object",
   "properties": {
    "target": {
     "type": "string",
     "description": "Name of an ssh target of list_targets."
    },
    "path": {
     "type": "string",
     "description": "Absolute path on the host."
    },
    "file": {
     "type": "string",
     "description": "Path of the local file."
    },
    "mode": {
     "type": "string",
     "description": "Permissions in octal; 0600 if absent."
    },
    "reason": {
     "type": "string",
     "description": "Why you want this, in your own words, for the operator who may be asked. It proves nothing."
    }
   },
   "required": [
    "target",
    "path",
    "file"
   ]
  },
  "annotations": {
   "readOnlyHint": false,
   "idempotentHint": false,
   "destructiveHint": true,
   "openWorldHint": true
  }
 }
]`

// Tools is the array of tools/list in one line: no string of JSON holds a line break.
func Tools() string {
	b := make([]byte, 0, len(tools))
	blank := false
	for i := range len(tools) {
		switch c := tools[i]; {
		case c == '\n':
			blank = true
		case c != ' ' || !blank:
			blank = false
			b = append(b, c)
		}
	}
	return string(b)
}
