/// The folders of targets in an order in which each one uses only earlier ones.
enum FolderUses {
    /// A folder, and the other folders of its target whose types, functions and statements it uses.
    typealias Folder = (name: String, mayUse: [String])

    static let targets: [(name: String, folders: [Folder])] = [
        (
            "FerryCore",
            [
                ("Time", []),
                ("Limits", []),
                ("Text", ["Time", "Limits"]),
                ("Codec", ["Time", "Text"]),
                ("Fields", ["Time", "Limits", "Text", "Codec"]),
                ("Cookies", ["Time", "Limits", "Text", "Codec", "Fields"]),
                ("ResumableUpload", ["Limits", "Text", "Codec"]),
                ("States", ["Codec", "Fields"]),
                ("Errors", ["Codec", "Fields", "States"]),
                ("Host", ["Time", "Limits", "Text", "Codec", "Fields", "States", "Errors"]),
                (
                    "JobSpec",
                    ["Time", "Limits", "Text", "Codec", "Fields", "ResumableUpload", "States", "Host"]
                ),
                ("Session", ["Time", "Limits", "Text", "Codec", "Fields", "Cookies", "Host", "JobSpec"]),
                (
                    "Attempt",
                    [
                        "Time", "Limits", "Text", "Codec", "Fields", "Cookies", "ResumableUpload", "States",
                        "Errors", "Host", "JobSpec", "Session",
                    ]
                ),
                ("Quotas", ["Time", "Text", "Codec", "Fields", "Session"]),
                ("JobRequest", ["Time", "Text", "Codec", "Fields", "Errors", "JobSpec", "Session"]),
                ("Nodes", ["Time", "Text", "Fields"]),
                ("Schedule", ["Time", "Limits", "Text", "Codec", "Fields", "JobSpec", "JobRequest"]),
                (
                    "Job",
                    [
                        "Time", "Limits", "Text", "Codec", "Fields", "ResumableUpload", "States", "Errors",
                        "Host", "JobSpec", "Attempt", "Session", "Quotas", "JobRequest", "Nodes", "Schedule",
                    ]
                ),
                ("Group", ["Time", "Text", "Codec", "Fields", "JobSpec", "Attempt", "Job"]),
                (
                    "Ports",
                    [
                        "Time", "Limits", "Text", "Codec", "Cookies", "ResumableUpload", "States", "Errors",
                        "Host", "JobSpec", "Attempt", "Session", "Quotas", "Job",
                    ]
                ),
                (
                    "Uploads",
                    ["Time", "Limits", "Text", "Codec", "Fields", "ResumableUpload", "Errors", "Ports"]
                ),
                ("Admin", ["Time", "Text", "Fields", "Ports"]),
                ("BulkOperations", ["Time", "Text", "Codec", "Fields", "Job"]),
                ("Webhook", ["Time", "Limits", "Text", "Codec", "Fields", "States", "JobSpec", "Ports"]),
                (
                    "Event",
                    [
                        "Time", "Limits", "Text", "Codec", "Fields", "States", "Errors", "Group", "Attempt",
                        "Job", "Webhook",
                    ]
                ),
            ]
        ),
        (
            "FerryScheduler",
            [
                ("HostControl", []),
                ("FairQueue", ["HostControl"]),
            ]
        ),
        (
            "FerryStore",
            [
                ("Connection", []),
                ("Signals", ["Connection"]),
                ("JobRows", ["Connection", "Signals"]),
                ("Requests", ["Connection", "JobRows"]),
                ("Settings", ["Connection", "Signals", "Requests"]),
                ("Leases", ["Connection"]),
                ("Sessions", ["Connection", "Signals", "Requests"]),
                ("Cookies", ["Connection", "Requests", "Sessions"]),
                ("Quotas", ["Connection", "Signals", "Requests"]),
                ("Hosts", ["Connection", "Signals", "JobRows", "Requests", "Leases"]),
                ("Claim", ["Connection", "Signals", "JobRows", "Leases", "Sessions", "Hosts"]),
                ("Deliveries", ["Connection", "Signals", "JobRows", "Requests", "Leases"]),
                ("Finish", ["Connection", "Signals", "JobRows", "Quotas", "Claim", "Deliveries"]),
                (
                    "Events",
                    ["Connection", "Signals", "JobRows", "Requests", "Leases", "Sessions", "Deliveries"]
                ),
                (
                    "Waiting",
                    ["Connection", "Signals", "JobRows", "Requests", "Settings", "Leases", "Claim", "Finish"]
                ),
                (
                    "Submit",
                    [
                        "Connection", "Signals", "JobRows", "Requests", "Leases", "Sessions", "Cookies",
                        "Quotas", "Hosts", "Claim", "Finish", "Events", "Waiting",
                    ]
                ),
                ("Groups", ["Connection", "Signals", "Requests", "Events", "Submit"]),
                ("Uploads", ["Connection", "Signals", "Requests"]),
                ("ContentStore", ["Connection", "Requests"]),
                (
                    "Jobs",
                    [
                        "Connection", "JobRows", "Requests", "Leases", "Claim", "Finish", "Events", "Waiting",
                        "Submit",
                    ]
                ),
                (
                    "BulkOperations",
                    [
                        "Connection", "Signals", "JobRows", "Requests", "Quotas", "Claim", "Submit",
                        "Uploads", "Jobs",
                    ]
                ),
                (
                    "Schedules",
                    [
                        "Connection", "Signals", "Requests", "Settings", "Quotas", "Waiting", "Submit",
                        "Uploads",
                    ]
                ),
                (
                    "Retention",
                    [
                        "Connection", "Signals", "JobRows", "Sessions", "Quotas", "Claim", "Deliveries",
                        "Groups", "Jobs", "BulkOperations",
                    ]
                ),
                ("Admin", ["Connection", "Signals", "Requests", "Settings", "Leases"]),
                (
                    "Cluster",
                    [
                        "Connection", "Signals", "JobRows", "Requests", "Settings", "Leases", "Sessions",
                        "Quotas", "Hosts", "Claim", "Deliveries", "Finish", "Events", "Retention", "Admin",
                    ]
                ),
                (
                    "Dispatch",
                    [
                        "Connection", "Signals", "JobRows", "Leases", "Cookies", "Quotas", "Hosts", "Claim",
                        "Deliveries", "Finish", "Events", "Waiting",
                    ]
                ),
                ("Schema", ["Connection", "Settings"]),
                (
                    "Wiring",
                    [
                        "Connection", "Signals", "JobRows", "Requests", "Settings", "Leases", "Sessions",
                        "Cookies", "Quotas", "Hosts", "Claim", "Deliveries", "Finish", "Events", "Waiting",
                        "Submit", "Groups", "Uploads", "ContentStore", "Jobs", "BulkOperations", "Schedules",
                        "Retention", "Admin",
                        "Cluster", "Dispatch",
                    ]
                ),
            ]
        ),
        (
            "FerryWebhooks",
            [
                ("Queue", []),
                ("Sign", []),
                ("Send", ["Queue", "Sign"]),
            ]
        ),
    ]
}
