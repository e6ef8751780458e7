// The tables of the comparison, with public access; `updated` has the index that the reads need.
migrate((app) => {
  for (const name of ['TodoItem', 'Created']) {
    app.save(new Collection({
      type: 'base',
      name,
      listRule: '', viewRule: '', createRule: '', updateRule: '', deleteRule: '',
      fields: [
        { type: 'text', name: 'text' },
        { type: 'bool', name: 'complete' },
        { type: 'autodate', name: 'created', onCreate: true },
        { type: 'autodate', name: 'updated', onCreate: true, onUpdate: true },
      ],
      indexes: [`CREATE INDEX idx_${name}_updated ON ${name} (updated)`],
    }))
  }
})
