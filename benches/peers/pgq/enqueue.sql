SELECT pgq.insert_event('k', 'k', :payload);
